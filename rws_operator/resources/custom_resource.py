"""`CustomResource`: a class that is a kind of the API server's.

The class keywords say what the resource is called, the fields what its objects hold. Both are
checked when the class is made. Instances exist only at the user's edge: `from_wire` makes one
from the API server's bytes, `to_wire` gives what to send back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Never, Self

import msgspec

from rws_operator.ctrl_c import is_ctrl_c
from rws_operator.errors import ConfigurationError, DecodeError, ResourceDefinitionError
from rws_operator.resources.class_errors import class_error
from rws_operator.resources.definition import Column, ResourceDefinition, Scale, Scope, define
from rws_operator.resources.metadata import ObjectMeta
from rws_operator.resources.model import Model, resolve, wire_form
from rws_operator.resources.schema import resource_schema
from rws_operator.resources.schema_path import check_paths
from rws_operator.resources.unreadable import undecodable

if TYPE_CHECKING:
    from rws_operator.resources.rule import Rule

_KEYWORDS = (
    "group", "version", "kind", "plural", "singular", "short_names", "categories", "scope",
    "columns", "rules", "storage", "served", "deprecated", "scale", "selectable_fields",
)  # fmt: skip


class CustomResource(Model):
    """An object of a custom resource; subclass it once per version of a kind.

    A subclass without any keyword is a plain base class: it has fields and no kind.

    Class keywords:
        group: API group, e.g. ``example.com``; required.
        version: Version within the group, e.g. ``v1``; required.
        kind: The kind's name; the class's by default.
        plural: Resource name in paths and RBAC rules; by default the kind's English plural.
        singular: By default the kind in lower case.
        short_names: Names ``kubectl`` takes as well.
        categories: Groups of kinds it belongs to, e.g. ``all``.
        scope: ``Namespaced`` (default) or ``Cluster``.
        columns: What ``kubectl get`` shows beside the name.
        rules: CEL rules over the whole object.
        storage: Whether the API server stores this version; exactly one does.
        served: Whether the API server answers in this version.
        deprecated: True, or the warning that clients get.
        scale: The scale subresource.
        selectable_fields: Paths for field selectors, e.g. ``.spec.color``.

    A field that is ``status`` on the wire makes the status subresource.
    """

    resource_definition: ClassVar[ResourceDefinition]
    resource_schema: ClassVar[Mapping[str, Any]]

    metadata: ObjectMeta

    def __init_subclass__(
        cls,
        *,
        group: str | None = None,
        version: str | None = None,
        kind: str | None = None,
        plural: str | None = None,
        singular: str | None = None,
        short_names: Sequence[str] = (),
        categories: Sequence[str] = (),
        scope: Scope = "Namespaced",
        columns: Sequence[Column] = (),
        rules: Sequence[Rule] = (),
        storage: bool = True,
        served: bool = True,
        deprecated: bool | str = False,
        scale: Scale | None = None,
        selectable_fields: Sequence[str] = (),
        **unknown: Never,
    ) -> None:
        super().__init_subclass__(rules=rules)
        for keyword in unknown:
            _refuse_keyword(cls.__name__, keyword)
        names = (group, version, kind, plural, singular, short_names, categories)
        features = (columns, rules, deprecated, scale, selectable_fields)
        if not any(names) and not any(features) and scope == "Namespaced" and storage and served:
            return  # a plain base class
        cls.resource_definition = define(
            cls.__name__,
            group=group,
            version=version,
            kind=kind,
            plural=plural,
            singular=singular,
            short_names=short_names,
            categories=categories,
            scope=scope,
            columns=columns,
            rules=rules,
            storage=storage,
            served=served,
            deprecated=deprecated,
            scale=scale,
            selectable_fields=selectable_fields,
        )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        super().__pydantic_init_subclass__()
        # With a forward reference still open the schema is made when it is asked for.
        _refuse_reserved_fields(cls)
        if "resource_definition" in vars(cls) and cls.__pydantic_complete__:
            schema_of(cls)

    @property
    def name(self) -> str:
        """The object's name."""
        return self.metadata.name

    @property
    def namespace(self) -> str | None:
        """The object's namespace, None for cluster scope."""
        return self.metadata.namespace

    @property
    def uid(self) -> str | None:
        """The object's uid, None before the API server has it."""
        return self.metadata.uid

    @classmethod
    def from_wire(cls, raw: bytes | Mapping[str, Any]) -> Self:
        """Read an object as the API server writes it.

        Raises:
            DecodeError: It is of another kind, or a field doesn't fit, or a validator or default
                factory of the class raised something, whatever it was; names the object.
        """
        # One path for both: JSON and Python input differ in pydantic, e.g. for bytes.
        data = raw if isinstance(raw, bytes) else msgspec.json.encode(raw)
        try:
            made = cls.model_validate_json(data)
        except BaseException as error:  # a validator is the author's code: SystemExit, too
            if is_ctrl_c(error):
                raise
            raise undecodable(cls.__name__, data, error) from error
        extra = made.__pydantic_extra__
        if extra:
            _drop_type(cls, made, extra)
        return made

    def to_wire(self) -> dict[str, Any]:
        """The object as to be sent: with unknown fields, without defaults that nobody set."""
        kind = definition_of(type(self)).kind
        wire = wire_form(self)
        if "status" in wire and isinstance(status := _status_of(self), Model):
            wire["status"] = wire_form(status, "kept")
        wire.pop("apiVersion", None)
        wire.pop("kind", None)
        return {"apiVersion": kind.api_version, "kind": kind.kind, **wire}


def definition_of(cls: type[CustomResource]) -> ResourceDefinition:
    """The class's resource definition.

    Raises:
        ConfigurationError: The class was made without keywords.
    """
    definition: ResourceDefinition | None = getattr(cls, "resource_definition", None)
    if definition is None:
        raise ConfigurationError(
            f"{cls.__name__} is not the class of a kind",
            remedy=f"write class {cls.__name__}(CustomResource, group='example.com', version='v1')",
        )
    return definition


def schema_of(cls: type[CustomResource]) -> Mapping[str, Any]:
    """The class's structural schema, made once; not to be changed.

    Raises:
        ResourceDefinitionError: A field or a path can't be expressed.
    """
    definition = definition_of(cls)
    owner = next(
        base
        for base in cls.__mro__
        if issubclass(base, CustomResource) and "resource_definition" in vars(base)
    )
    held: Mapping[str, Any] | None = vars(owner).get("resource_schema")
    if held is None:
        resolve(owner)
        try:
            held = resource_schema(owner)
            check_paths(owner.__name__, definition, held)
        except ResourceDefinitionError:
            raise
        except Exception as error:  # what stands beside the types is the author's, of any kind
            raise class_error(owner.__name__, error) from error
        owner.resource_schema = held
    return held


def _refuse_keyword(class_name: str, keyword: str) -> Never:
    near = get_close_matches(keyword, _KEYWORDS, n=1)
    remedy = f"did you mean {near[0]!r}?" if near else f"the keywords are {', '.join(_KEYWORDS)}"
    raise ResourceDefinitionError(f"{class_name}: unknown class keyword {keyword!r}", remedy=remedy)


# An object with items is taken for a list by the API server's machinery.
_RESERVED = ("apiVersion", "kind", "metadata", "items")


def _refuse_reserved_fields(cls: type[CustomResource]) -> None:
    own = vars(cls).get("__annotations__", {})
    for field in cls.schema_fields:
        if field.alias in _RESERVED and (field.name != "metadata" or "metadata" in own):
            raise ResourceDefinitionError(
                f"{cls.__name__}.{field.name}: {field.alias!r} has a meaning of its own in every "
                "object",
                remedy="remove it, or put your own under spec",
            )


def _status_of(made: CustomResource) -> Any:
    names = [field.name for field in made.schema_fields if field.alias == "status"]
    return getattr(made, names[0]) if names else None


def _drop_type(cls: type[CustomResource], made: CustomResource, extra: dict[str, Any]) -> None:
    kind = definition_of(cls).kind
    api_version = extra.pop("apiVersion", kind.api_version)
    name = extra.pop("kind", kind.kind)
    if (api_version, name) != (kind.api_version, kind.kind):
        raise DecodeError(
            f"{made.name} is a {name} of {api_version}, not the {kind.kind} of {kind.api_version} "
            f"that {cls.__name__} stands for",
            remedy="read it with the class of its version",
        )
