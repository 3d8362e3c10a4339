"""One change of the cache, as its subscribers see it."""

from collections.abc import Hashable
from typing import NamedTuple

from rws_operator.resources.record import ObjectRecord


class Delta(NamedTuple):
    """An object came (old is None), changed, or went (new is None).

    A deletion followed by a creation under the same name is always two deltas: the records of
    one delta have the same uid.

    Attributes:
        initial: Part of the first list, so nothing is known to have changed.
        writer: Whose own write this change is, and nothing beside it (see
            `Informer.writing`); None for every other change and for each deletion. What a run
            wrote itself needs no other run of it, but may well need one of others who read the
            object; what it deleted it may want to make anew.
    """

    old: ObjectRecord | None
    new: ObjectRecord | None
    initial: bool = False
    writer: Hashable | None = None
