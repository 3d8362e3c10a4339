"""Command line of the operator: ``python -m app``."""

from app.backup import operator

operator.main()
