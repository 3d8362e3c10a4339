"""What no save of the program mends: it ends the session, where any other error waits for one."""

from rws_operator.errors import ConfigurationError


class Refused(ConfigurationError):
    """The cluster that was named can't be developed on."""
