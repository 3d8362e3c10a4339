"""Setting a condition: what moves, what stays, what others wrote."""

import datetime
from typing import Any

from rws_operator.resources import Change, Condition, find_condition, set_condition

NOON = datetime.datetime(2024, 1, 1, 12, 0, 0, 999_999, tzinfo=datetime.UTC)
LATER = NOON + datetime.timedelta(hours=1)


def ready(status: Any = "True", reason: str = "Done", **more: Any) -> Condition:
    """A condition."""
    return Condition(type="Ready", status=status, reason=reason, **more)


def test_a_new_condition_is_appended() -> None:
    """Conditions of others stay as they are, in front."""
    others = [{"type": "Other", "status": "Maybe", "foreign": 1}]
    conditions, change = set_condition(others, ready(message="well"), now=NOON)
    assert change is Change.TRANSITIONED
    assert conditions == [
        {"type": "Other", "status": "Maybe", "foreign": 1},
        {
            "type": "Ready",
            "status": "True",
            "reason": "Done",
            "message": "well",
            "lastTransitionTime": "2024-01-01T12:00:00Z",
        },
    ]
    assert len(others) == 1


def test_the_same_condition_changes_nothing() -> None:
    """Setting it again moves neither the time nor anything else."""
    first, _ = set_condition([], ready(), now=NOON)
    again, change = set_condition(first, ready(), now=LATER)
    assert change is Change.UNCHANGED
    assert again == first


def test_another_reason_keeps_the_transition_time() -> None:
    """Only a change of status is a transition."""
    first, _ = set_condition([], ready(), now=NOON)
    second, change = set_condition(first, ready(reason="Still", observed_generation=2), now=LATER)
    assert change is Change.UPDATED
    assert second[0]["reason"] == "Still"
    assert second[0]["observedGeneration"] == 2
    assert second[0]["lastTransitionTime"] == "2024-01-01T12:00:00Z"


def test_another_status_is_a_transition() -> None:
    """The time moves, the place in the list doesn't."""
    first, _ = set_condition([], ready(), now=NOON)
    first.append({"type": "Other", "status": "True"})
    second, change = set_condition(first, ready("False", "Broken"), now=LATER)
    assert change is Change.TRANSITIONED
    assert [each["type"] for each in second] == ["Ready", "Other"]
    assert second[0]["lastTransitionTime"] == "2024-01-01T13:00:00Z"


def test_a_time_of_its_own_counts_for_a_transition_only() -> None:
    """Whoever gives the time can't move it while the status stays."""
    first, _ = set_condition([], ready(last_transition_time=NOON), now=LATER)
    second, _ = set_condition(first, ready(reason="Still", last_transition_time=LATER))
    assert first[0]["lastTransitionTime"] == "2024-01-01T12:00:00Z"
    assert second[0]["lastTransitionTime"] == "2024-01-01T12:00:00Z"


def test_a_message_is_cleared() -> None:
    """A condition without message doesn't keep the old one."""
    first, _ = set_condition([], ready(message="old"), now=NOON)
    second, change = set_condition(first, ready(), now=LATER)
    assert change is Change.UPDATED
    assert second[0]["message"] == ""


def test_an_absent_message_equals_an_empty_one() -> None:
    """A condition that another program wrote without message is not written anew."""
    held = {"type": "Ready", "status": "True", "reason": "Done", "lastTransitionTime": "x"}
    assert set_condition([held], ready())[1] is Change.UNCHANGED


def test_the_wall_clock_in_utc_seconds_is_the_default() -> None:
    """The time goes on the wire as Kubernetes writes it."""
    conditions, _ = set_condition([], ready())
    moment = datetime.datetime.strptime(conditions[0]["lastTransitionTime"], "%Y-%m-%dT%H:%M:%S%z")
    assert abs(datetime.datetime.now(datetime.UTC) - moment) < datetime.timedelta(seconds=10)


def test_find_condition() -> None:
    """The condition of a type, or None."""
    conditions = [{"type": "A"}, {"type": "B"}]
    assert find_condition(conditions, "B") is conditions[1]
    assert find_condition(conditions, "C") is None
