"""Command line of the operator: ``python -m app``."""

from app.{{ cookiecutter.__module }} import operator

operator.main()
