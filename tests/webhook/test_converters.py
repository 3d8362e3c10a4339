"""Converters: which functions may be added, which are missing, and the way through them."""

import pytest

from rws_operator import CustomResource, Model
from rws_operator.errors import ConfigurationError
from rws_operator.resources.custom_resource import definition_of
from rws_operator.webhook.converters import ConversionFailed, Converters
from tests.webhook.conversion_kit import versions_of

GROUP = "converters.test.example.com"


class Spec(Model):
    """Nothing but a size."""

    size: int


class V1(CustomResource, group=GROUP, version="v1", kind="Box", plural="boxes"):
    """The stored version."""

    spec: Spec


class V2(CustomResource, group=GROUP, version="v2", kind="Box", plural="boxes", storage=False):
    """Another version."""

    spec: Spec


class V3(CustomResource, group=GROUP, version="v3", kind="Box", plural="boxes", storage=False):
    """A third version."""

    spec: Spec


class Gone(
    CustomResource,
    group=GROUP,
    version="v0",
    kind="Box",
    plural="boxes",
    storage=False,
    served=False,
):
    """A version that is stored in old objects, and served no more."""

    spec: Spec


def up(old: V1) -> V2:
    """Keep the size."""
    return V2(metadata=old.metadata, spec=old.spec)


def down(new: V2) -> V1:
    """Keep the size."""
    return V1(metadata=new.metadata, spec=new.spec)


def test_route_leads_through_the_storage_version():
    """Between two others it takes two functions, from or to the storage version one."""
    versions = versions_of()
    kind = definition_of(versions.v1).kind.kind

    def steps(source: str, target: str) -> list[str]:
        route = versions.converters.route(
            versions.api_version(source), kind, versions.api_version(target)
        )
        assert route.source is getattr(versions, source)
        assert route.target is getattr(versions, target)
        return [step.name.rpartition(".")[2] for step in route.steps]

    assert steps("v1alpha1", "v2") == ["upgrade", "group_schedule"]
    assert steps("v2", "v1alpha1") == ["flatten_schedule", "downgrade"]
    assert steps("v1alpha1", "v1") == ["upgrade"]
    assert steps("v1", "v1alpha1") == ["downgrade"]
    assert steps("v2", "v2") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((f"{GROUP}/v1", "Lid", f"{GROUP}/v2"), "no converters for this kind"),
        (("other.example.com/v1", "Box", f"{GROUP}/v2"), "no converters for this kind"),
        ((f"{GROUP}/v1", "Box", "other.example.com/v2"), "of another group"),
        ((f"{GROUP}/v9", "Box", f"{GROUP}/v2"), "no version v9 of it: it converts v1, v2"),
        ((f"{GROUP}/v1", "Box", f"{GROUP}/v9"), "no version v9 of it"),
        ((f"{GROUP}/v2", "Box", f"{GROUP}/v1"), "no converter from v2 to v1: write .*def v2_to_v1"),
        (("", "Box", ""), "no converters for this kind"),
    ],
)
def test_route_that_is_not_there(arguments, message):
    """What is not known, or has no function, is told."""
    converters = Converters()
    converters.add(V1, V2, up)
    with pytest.raises(ConversionFailed, match=message):
        converters.route(*arguments)


def test_route_appears_when_its_function_is_added():
    """A way that was looked for in vain is found once the function is there."""
    converters = Converters()
    converters.add(V1, V2, up)
    with pytest.raises(ConversionFailed):
        converters.route(f"{GROUP}/v2", "Box", f"{GROUP}/v1")
    converters.add(V2, V1, down)
    assert converters.route(f"{GROUP}/v2", "Box", f"{GROUP}/v1").steps


class Lid(CustomResource, group=GROUP, version="v2", storage=False):
    """Another kind."""


class Wide(
    CustomResource,
    group=GROUP,
    version="v2",
    kind="Box",
    plural="boxes",
    scope="Cluster",
    storage=False,
):
    """Another scope."""


class Twin(CustomResource, group=GROUP, version="v1", kind="Box", plural="boxes", storage=False):
    """Another class of the stored version."""


class AlsoStored(CustomResource, group=GROUP, version="v2", kind="Box", plural="boxes"):
    """The author forgot storage=False."""


class Unversioned(CustomResource):
    """No kind at all."""


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (V1, Lid, "not of one kind, kind is 'Box' and 'Lid'"),
        (V1, Wide, "namespaced is True and False"),
        (V1, Twin, "both are v1"),
        (V1, V1, "both are v1"),
        (V1, AlsoStored, "both are the storage version.*storage=False"),
        (V2, V3, "none is the storage version"),
        (V1, Unversioned, "Unversioned is not the class of a kind"),
    ],
)
def test_pair_that_is_none(source, target, message):
    """Two classes that are not a version and the storage version of a kind are refused."""
    with pytest.raises(ConfigurationError, match=message):
        Converters().add(source, target, lambda old: old)


def test_second_function_for_a_pair():
    """Which of two functions runs would be chance."""
    converters = Converters()
    converters.add(V1, V2, up)
    with pytest.raises(ConfigurationError, match="up makes v2 of v1 already, and so would down"):
        converters.add(V1, V2, down)  # type: ignore[arg-type]


def test_second_class_for_a_version():
    """Two classes of one version, or two storage versions, are refused."""

    class V2Again(
        CustomResource, group=GROUP, version="v2", kind="Box", plural="boxes", storage=False
    ):
        spec: Spec

    class V4Stored(CustomResource, group=GROUP, version="v4", kind="Box", plural="boxes"):
        spec: Spec

    converters = Converters()
    converters.add(V1, V2, up)
    with pytest.raises(ConfigurationError, match="V2Again: V2 has its place among Box's versions"):
        converters.add(V2Again, V1, lambda old: old)
    with pytest.raises(ConfigurationError, match="V4Stored: V1 has its place"):
        converters.add(V2, V4Stored, lambda old: old)
    assert converters.kinds == [[V1, V2]]


def test_function_of_another_form():
    """What can't be called with one object is refused where it is added."""
    with pytest.raises(ConfigurationError, match=r"def .*\(old: V1\) -> V2"):
        Converters().add(V1, V2, lambda: None)  # type: ignore[arg-type]


def test_check_complete_names_each_function_that_is_missing():
    """Every served version needs both directions; the message says how to write them."""
    converters = Converters()
    converters.add(V1, V2, up)
    with pytest.raises(ConfigurationError) as caught:
        converters.check_complete([V1, V2, V3])
    assert "no converter for Box: v2 to v1, Box: v3 to v1, Box: v1 to v3" in str(caught.value)
    assert "@operator.convert(V3, V1) def v3_to_v1(old: V3) -> V1" in str(caught.value)


def test_check_complete_passes_what_needs_nothing():
    """Both directions are enough; other kinds and unserved versions need none."""
    converters = Converters()
    converters.add(V1, V2, up)
    converters.add(V2, V1, down)
    converters.add(Gone, V1, lambda old: V1(metadata=old.metadata, spec=old.spec))
    converters.check_complete([V1, V2, Gone, Lid])
    Converters().check_complete([V1, V2])


def test_kinds():
    """The stored class comes first."""
    converters = Converters()
    assert converters.kinds == []
    converters.add(V2, V1, down)
    assert converters.kinds == [[V1, V2]]
