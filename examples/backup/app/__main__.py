"""Command line of the operator: ``python -m app``."""

from . import webhooks  # noqa: F401 - they register themselves
from .backup import operator

operator.main()
