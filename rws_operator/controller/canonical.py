"""Quantities in the form the API server writes them.

The server reads a quantity and writes it anew: ``1000m`` becomes ``1``, ``0.5Gi`` becomes
``512Mi``. The family of suffixes is kept, so ``1Gi`` and ``1073741824`` stay different texts.
Forms that the server treats in a way of their own (exponents, leading zeros, amounts below a
thousandth, which it rounds in some fields only) are left alone.
"""

from __future__ import annotations

import re
from decimal import Decimal

_QUANTITY = re.compile(r"(-?(?:0|[1-9]\d*)?(?:\.\d+)?)([KMGTPE]i|[mkMGTPE]?)")
_DECIMAL = ["m", "", "k", "M", "G", "T", "P", "E"]
_BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
_LARGEST = 2**63


def canonical_quantity(value: str | int | float) -> str | None:
    """The server's text of a quantity; None where it isn't certain.

    Args:
        value: A quantity as in a document.
    """
    match = _QUANTITY.fullmatch(str(value))
    if match is None or not match[1].strip("-"):
        return None
    number, suffix = Decimal(match[1]), match[2]
    if suffix.endswith("i"):
        amount = number * 1024 ** _BINARY.index(suffix)
        if 1024 <= abs(amount) < _LARGEST:
            return _scaled(amount, _BINARY, 1024)
    else:
        amount = number * Decimal(1000) ** (_DECIMAL.index(suffix) - 1)
    return _scaled(amount * 1000, _DECIMAL, 1000) if abs(amount) < _LARGEST else None


def _scaled(amount: Decimal, suffixes: list[str], base: int) -> str | None:
    if amount != amount.to_integral_value():
        return None  # the server rounds it
    whole, power = int(amount), 0
    if whole == 0:
        return "0"
    while power + 1 < len(suffixes) and whole % base == 0:
        whole, power = whole // base, power + 1
    return f"{whole}{suffixes[power]}"
