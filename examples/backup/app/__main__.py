"""Command line of the operator: ``python -m app``."""

from . import webhooks as webhooks  # its functions have registered themselves
from .backup import operator

operator.main()
