"""The command line of an operator's program.

    python -m app serve                                   run it
    python -m app dev                                     write it, and see it run
    python -m app --manifests | kubectl apply -f -        install it
    python -m app uninstall                               take it out of the cluster again

Each option can be given by the environment too (``RWS_CONFIG_...``), which is what a Deployment
does. What a user can mend is told in one line on standard error, without a traceback and with
exit code 1, or 2 where the command line itself is misspelt.
"""

from rws_operator.cli.command import main
from rws_operator.cli.program import Program

__all__ = ["Program", "main"]
