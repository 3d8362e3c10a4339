"""What can go wrong with a test's surroundings, as opposed to the code under test."""

from rws_operator.errors import OperatorError


class ControlPlaneError(OperatorError):
    """The control plane could not be started, or does not offer what was asked of it."""


class ProgramsNotFound(ControlPlaneError):
    """The control plane's programs are nowhere to be found and could not be built."""


class NotThrowaway(ControlPlaneError):
    """A cluster was named that does not look as if it may be lost."""


class RequestRefused(OperatorError):
    """The API server answered a request of the test harness itself with an error."""
