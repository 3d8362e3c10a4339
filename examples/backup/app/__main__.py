"""Command line of the operator: ``python -m app``."""

from .backup import operator

operator.main()
