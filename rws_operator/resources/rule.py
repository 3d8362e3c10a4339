"""A CEL rule of a schema: what the API server checks beyond types and bounds.

Rules stand on a field (`Field(rules=[...])`), on a nested model (`class Window(Model,
rules=[...])`) or on the whole object (`class Backup(CustomResource, ..., rules=[...])`). The
API server compiles and enforces them; nothing evaluates them here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from rws_operator.errors import ResourceDefinitionError

if TYPE_CHECKING:
    from collections.abc import Sequence

Reason = Literal[
    "FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"
]


@dataclass(frozen=True, slots=True)
class Rule:
    """One CEL rule.

    Args:
        rule: The expression over ``self`` (and ``oldSelf``), true where the value is valid.
        message: Shown when the rule fails; one line.
        message_expression: A CEL expression that gives the message; wins over ``message``.
        reason: Machine-readable cause of the refusal.
        field_path: Field the error is reported at, relative to self, e.g. ``.spec.schedule``.
        optional_old_self: Run a transition rule on creation too, ``oldSelf`` being optional.
    """

    rule: str
    message: str | None = None
    message_expression: str | None = None
    reason: Reason | None = None
    field_path: str | None = None
    optional_old_self: bool = False

    def __post_init__(self) -> None:
        if not self.rule.strip():
            raise ResourceDefinitionError(
                "Rule without an expression", remedy="give a CEL expression, e.g. 'self.size > 0'"
            )
        if self.message is not None and (not self.message.strip() or "\n" in self.message):
            raise ResourceDefinitionError(
                f"Rule {self.rule!r}: the message is empty or has a line break",
                remedy="give one line of text",
            )

    def to_wire(self) -> dict[str, Any]:
        """The rule as it stands in ``x-kubernetes-validations``."""
        wire: dict[str, Any] = {
            "rule": self.rule,
            "message": self.message,
            "messageExpression": self.message_expression,
            "reason": self.reason,
            "fieldPath": self.field_path,
            "optionalOldSelf": self.optional_old_self or None,
        }
        return {name: value for name, value in wire.items() if value is not None}


def check_rules(where: str, rules: object) -> tuple[Rule, ...]:
    """Return rules as given, each one a `Rule`.

    Raises:
        ResourceDefinitionError: They are no list, or one is a bare expression.
    """
    listed = cast("Sequence[object]", rules) if isinstance(rules, list | tuple) else (None,)
    checked = tuple(rule for rule in listed if isinstance(rule, Rule))
    if len(checked) < len(listed):
        raise ResourceDefinitionError(
            f"{where}: rules={rules!r} is no list of rules",
            remedy="write rules=[Rule('self.size > 0')]",
        )
    return checked
