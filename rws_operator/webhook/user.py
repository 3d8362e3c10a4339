"""`UserInfo`: who makes a request that is reviewed, decoded when a handler asks for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from rws_operator.client.decode import decode_json

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who makes the request."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...] | None] | None = None


_decode = msgspec.json.Decoder(_UserInfo).decode


def decode_user(raw: msgspec.Raw) -> UserInfo:
    """Read a review's ``userInfo``.

    Raises:
        DecodeError: It is something else.
    """
    user = decode_json(raw, _decode, "user")
    extra = {key: values or () for key, values in (user.extra or {}).items()}
    return UserInfo(user.username, user.uid, user.groups or (), extra)
