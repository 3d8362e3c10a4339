"""round_trip_check: what it finds, what it lets pass, how it says so."""

import sys
from datetime import datetime, timedelta, timezone

import pytest
from pydantic import AwareDatetime

from rws_operator import Condition, CustomResource, Duration, Field, Model, Quantity
from rws_operator.errors import ConfigurationError, Denied
from rws_operator.testing import round_trip_check
from rws_operator.webhook.converters import Converters
from tests.webhook.conversion_kit import Spec, SpecV1Alpha1, versions_of

GROUP = "roundtrip.test.example.com"


class Old(CustomResource, group=GROUP, version="v1alpha1", kind="Backup", storage=False):
    """A version whose functions lose nothing."""

    spec: SpecV1Alpha1


class New(CustomResource, group=GROUP, version="v1", kind="Backup"):
    """The stored version."""

    spec: Spec


def upgrade(old: Old) -> New:
    """Name everything."""
    spec = Spec(
        schedule=old.spec.cron,
        retention_days=old.spec.keep,
        targets=old.spec.targets,
        suspend=old.spec.suspend,
    )
    return New(metadata=old.metadata, spec=spec)


def downgrade(new: New) -> Old:
    """Name everything."""
    spec = SpecV1Alpha1(
        cron=new.spec.schedule,
        keep=new.spec.retention_days,
        targets=new.spec.targets,
        suspend=new.spec.suspend,
    )
    return Old(metadata=new.metadata, spec=spec)


async def upgrade_async(old: Old) -> New:
    """The same, on the loop."""
    return upgrade(old)


def forgets_suspend(new: New) -> Old:
    """Lose a field."""
    made = downgrade(new)
    made.spec.suspend = None
    return made


def adds_label(old: Old) -> New:
    """Leave a trace."""
    made = upgrade(old)
    made.metadata.labels["converted"] = "yes"
    return made


def turns_targets(new: New) -> Old:
    """Swap what has an order."""
    made = downgrade(new)
    made.spec.targets.reverse()
    return made


def refuses(new: New) -> Old:
    """Have no equivalent."""
    if new.spec.retention_days > 30:
        raise Denied("v1alpha1 keeps 30 days at most")
    return downgrade(new)


OBJECT = Old.from_wire(
    {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "Backup",
        "metadata": {"name": "nightly", "namespace": "default"},
        "spec": {"cron": "* * * * *", "suspend": True, "more": {"deep": [1]}},
    }
)


def test_round_trip_of_functions_that_lose_nothing():
    """Generated objects and samples pass, with functions, with Converters and with async ones."""
    round_trip_check(upgrade, downgrade)
    round_trip_check(upgrade_async, downgrade, examples=10)
    round_trip_check(upgrade, downgrade, samples=[OBJECT, OBJECT.to_wire()])
    round_trip_check(versions_of().converters, examples=30)
    round_trip_check(versions_of(stored="v2").converters, examples=30)


async def test_round_trip_inside_a_running_loop():
    """An async function can be checked from an async test."""
    round_trip_check(upgrade_async, downgrade, samples=[OBJECT])


@pytest.mark.parametrize(
    ("functions", "path"),
    [
        ((upgrade, forgets_suspend), ".spec.suspend was "),
        ((adds_label, downgrade), ".metadata.labels.converted was absent and came back as"),
        ((upgrade, turns_targets), ".spec.targets[0].bucket was "),
        ((upgrade, refuses), "v1alpha1 keeps 30 days at most"),
    ],
)
def test_round_trip_finds_what_is_lost(functions, path):
    """A field, an added label, an order and a refusal are found in generated objects."""
    with pytest.raises(AssertionError, match=r"New to Old and back|Old to New and back") as caught:
        round_trip_check(*functions)
    assert path in str(caught.value)
    assert '"kind": "Backup"' in str(caught.value)


def test_round_trip_finds_what_a_sample_loses():
    """The message names the way, the path, both values and the object."""
    with pytest.raises(AssertionError) as caught:
        round_trip_check(upgrade, forgets_suspend, samples=[OBJECT])
    assert str(caught.value).startswith(
        "Old to New and back: .spec.suspend was true and came back as absent\nthe object: {"
    )
    assert '"name": "nightly"' in str(caught.value)


def test_round_trip_finds_a_bound_of_one_version_alone():
    """An object that only one version can hold is one that can't be converted."""

    class Wide(CustomResource, group=GROUP, version="v1", kind="Bound"):
        size: int = Field(ge=0, le=100)

    class Narrow(CustomResource, group=GROUP, version="v2", kind="Bound", storage=False):
        size: int = Field(ge=0, le=50)

    converters = Converters()
    converters.add(Wide, Narrow, lambda old: Narrow(metadata=old.metadata, size=old.size))
    converters.add(Narrow, Wide, lambda new: Wide(metadata=new.metadata, size=new.size))
    with pytest.raises(AssertionError, match=r"Narrow\.size: Input should be less than or equal"):
        round_trip_check(converters)


def test_generated_objects_have_every_form_of_field():
    """All that a schema can hold is made, and comes back from a version of the same form."""

    class Part(Model, preserve_unknown=True):
        name: str = Field(pattern=r"^[a-z]{1,8}$")
        port: int | str | None = None

    class Forms(Model):
        flag: bool
        count: int = Field(gt=0, multiple_of=5)
        ratio: float = Field(default=0.5, ge=0, lt=1)
        size: Quantity = Quantity("1Gi")
        parts: list[Part] = Field(default_factory=list, list_type="map", map_keys=["name"])
        names: set[str] = Field(default_factory=set, max_length=4)
        free: dict[str, int] = Field(default_factory=dict, min_length=0)
        conditions: list[Condition] = []

    class First(CustomResource, group=GROUP, version="v1", kind="Form", scope="Cluster"):
        spec: Forms

    class Second(
        CustomResource, group=GROUP, version="v2", kind="Form", scope="Cluster", storage=False
    ):
        spec: Forms

    seen = []

    def there(old: First) -> Second:
        seen.append(old.spec)
        return Second(metadata=old.metadata, spec=old.spec)

    converters = Converters()
    converters.add(First, Second, there)
    converters.add(Second, First, lambda new: First(metadata=new.metadata, spec=new.spec))
    round_trip_check(converters)
    assert any(spec.parts and spec.parts[0].model_extra for spec in seen)
    assert any(len(spec.names) > 1 for spec in seen)
    assert any(spec.conditions for spec in seen)
    assert {spec.flag for spec in seen} == {True, False}


def test_round_trip_compares_by_value():
    """A text in another form is no loss; a part of its value is."""

    class Wait(CustomResource, group=GROUP, version="v1", kind="Wait"):
        every: Duration
        size: Quantity
        at: AwareDatetime
        more: dict[str, list[Duration]] = {}

    class WaitInNumbers(CustomResource, group=GROUP, version="v2", kind="Wait", storage=False):
        seconds: int
        mebibytes: int
        at: int
        more: list[int]

    def there(old: Wait) -> WaitInNumbers:
        return WaitInNumbers(
            metadata=old.metadata,
            seconds=int(old.every.total_seconds()),
            mebibytes=int(old.size.value) >> 30 << 10,
            at=int(old.at.timestamp()),
            more=[int(each.total_seconds()) for each in old.more["a"]],
        )

    def back(new: WaitInNumbers) -> Wait:
        return Wait(
            metadata=new.metadata,
            every=timedelta(seconds=new.seconds),
            size=Quantity(f"{new.mebibytes}Mi"),
            at=datetime.fromtimestamp(new.at, timezone(timedelta(hours=2))),
            more={"a": [timedelta(seconds=each) for each in new.more]},
        )

    sample = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Wait",
        "metadata": {"name": "one", "namespace": "default"},
        "every": "24h",
        "size": "1Gi",
        "at": "2026-01-01T00:00:00Z",
        "more": {"a": ["1m", "60s"]},
    }
    converters = Converters()
    converters.add(Wait, WaitInNumbers, there)
    converters.add(WaitInNumbers, Wait, back)
    round_trip_check(converters, samples=[sample])
    lost = {"every": "24h1ms", "size": "1025Mi", "at": "2026-01-01T00:00:00.500000Z"}
    for name, value in lost.items():
        with pytest.raises(AssertionError, match=rf'\.{name} was "{value}" and came back as'):
            round_trip_check(converters, samples=[sample | {name: value}])


def test_round_trip_needs_both_functions():
    """One direction alone is a mistake that is told with how to write the other."""
    with pytest.raises(ConfigurationError, match=r"def v1_to_v1alpha1\(old: New\) -> Old"):
        round_trip_check(upgrade)
    with pytest.raises(ConfigurationError, match="nothing to check"):
        round_trip_check()


def test_round_trip_needs_annotations():
    """A function without classes in its annotations is refused with the remedy."""
    with pytest.raises(ConfigurationError, match="or pass Converters"):
        round_trip_check(lambda old: old)


def test_round_trip_refuses_a_sample_of_another_kind():
    """A sample that no converter is for would prove nothing."""
    with pytest.raises(ConfigurationError, match="no converter is for a sample of v1 Pod"):
        round_trip_check(upgrade, downgrade, samples=[{"apiVersion": "v1", "kind": "Pod"}])


def test_round_trip_without_hypothesis(monkeypatch):
    """Generating is refused with the remedy, samples still work."""
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(
        ConfigurationError, match=r"pip install .rws-operator\[testing\]., or pass samples"
    ):
        round_trip_check(upgrade, downgrade)
    round_trip_check(upgrade, downgrade, samples=[OBJECT])


def test_round_trip_of_a_model_that_chance_does_not_meet():
    """Where no generated object can be read nothing was proven, and that is said."""

    class Fussy(CustomResource, group=GROUP, version="v1", kind="Fuss"):
        word: str

        def model_post_init(self, _: object) -> None:
            if self.word != "exactly this":
                raise ValueError("no")

    class Easy(CustomResource, group=GROUP, version="v2", kind="Fuss", storage=False):
        word: str

    converters = Converters()
    converters.add(Fussy, Easy, lambda old: Easy(metadata=old.metadata, word=old.word))
    converters.add(Easy, Fussy, lambda new: Fussy(metadata=new.metadata, word=new.word))
    with pytest.raises(ConfigurationError, match="pass samples"):
        round_trip_check(converters)
