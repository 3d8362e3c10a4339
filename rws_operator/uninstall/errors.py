"""What ends an uninstall early."""

from __future__ import annotations

from rws_operator.errors import OperatorError


class UninstallIncomplete(OperatorError):
    """Something would not go in time; what was done stays done, and it can be run again."""
