"""`Runnable`: what an Operator runs while it leads, seen from the Operator.

A Controller is one; a loop of one's own, say one that polls something outside of the cluster, is
another. The same rules hold for both, so that no replica works beside the leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rws_operator.controller.environment import Environment
    from rws_operator.resources import Kind, PolicyRule


class Runnable(Protocol):
    """Anything an Operator runs while it leads: a Controller, or a loop of one's own."""

    @property
    def name(self) -> str:
        """What logs and metrics call it; unique within an Operator."""
        ...

    def rules(self) -> Iterable[PolicyRule]:
        """The permissions it needs."""
        ...

    def kinds(self) -> Iterable[Kind]:
        """The kinds it serves."""
        ...

    def bind(self, environment: Environment) -> None:
        """Take what the Operator lends it; called once, before `run`."""

    async def run(self) -> None:
        """Wait for ``environment.leading``, then work until ``environment.stopping`` is set.

        It must return then, within ``environment.drain_seconds``, and leave nothing at work: the
        next replica begins. Returning earlier, or raising, ends the Operator. A cancellation
        means that the work must stop at once.
        """
