"""`Converters`: the author's functions between the versions of kinds, and the way through them.

The storage version is the hub: each function leads to it or away from it, so a kind of n versions
needs 2 (n - 1) functions and any version reaches any other in at most two steps. Pure data; the
reviews and the objects are `conversion`'s.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from rws_operator.controller.handlers import is_async, name_of
from rws_operator.errors import ConfigurationError, OperatorError
from rws_operator.resources import CustomResource
from rws_operator.resources.custom_resource import definition_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

Source = TypeVar("Source", bound=CustomResource)
Target = TypeVar("Target", bound=CustomResource)

AnyResource = type[CustomResource]


class ConversionFailed(OperatorError):
    """An object that can't be converted, and why; whoever asked for the object reads it."""


@dataclass(frozen=True)
class Converter:
    """One of the author's functions, from one version to another."""

    source: AnyResource
    target: AnyResource
    function: Callable[[Any], Any]

    @functools.cached_property
    def is_async(self) -> bool:
        """Whether it runs on the event loop."""
        return is_async(self.function)

    @property
    def name(self) -> str:
        """The function's name, for messages."""
        return name_of(self.function)

    def check(self, made: Any) -> CustomResource:
        """What the function returned, if it is of the target's class.

        Raises:
            ConversionFailed: It is not.
        """
        if isinstance(made, self.target):
            return made
        if inspect.iscoroutine(made):
            made.close()
        raise ConversionFailed(
            f"{self.name} returned {'None' if made is None else type(made).__name__}",
            remedy=f"return a {self.target.__name__}",
        )


@dataclass(frozen=True)
class Route:
    """How an object gets from one version to another: by one function, or by two."""

    source: AnyResource
    target: AnyResource
    steps: tuple[Converter, ...]

    @functools.cached_property
    def is_async(self) -> bool:
        """Whether a step of it runs on the event loop."""
        return any(step.is_async for step in self.steps)

    @functools.cached_property
    def names(self) -> str:
        """The functions' names, for messages."""
        return " and ".join(step.name for step in self.steps)


@dataclass(slots=True)
class _Versions:
    """The classes of one kind, by version, and its functions."""

    hub: AnyResource
    classes: dict[str, AnyResource]
    converters: dict[tuple[str, str], Converter] = field(default_factory=dict)
    routes: dict[tuple[str, str], Route] = field(default_factory=dict)

    @property
    def hub_version(self) -> str:
        return _version(self.hub)

    def class_of(self, version: str) -> AnyResource:
        found = self.classes.get(version)
        if found is None:
            raise ConversionFailed(
                f"the operator knows no version {version} of it",
                remedy=f"it converts {', '.join(sorted(self.classes))}",
            )
        return found

    def route(self, source: str, target: str) -> Route:
        if (found := self.routes.get((source, target))) is None:
            found = self.routes[source, target] = self._found(source, target)
        return found

    def _found(self, source: str, target: str) -> Route:
        ends = self.class_of(source), self.class_of(target)
        hub = self.hub_version
        stations = [source, target] if hub in (source, target) else [source, hub, target]
        if source == target:
            stations = []
        return Route(*ends, tuple(self._step(*pair) for pair in pairwise(stations)))

    def _step(self, source: str, target: str) -> Converter:
        step = self.converters.get((source, target))
        if step is None:
            raise ConversionFailed(
                f"the operator has no converter from {source} to {target}",
                remedy=_how_to_write(self.classes[source], self.classes[target]),
            )
        return step

    def missing(self, version: str) -> list[tuple[str, str]]:
        hub = self.hub_version
        both = [] if version == hub else [(version, hub), (hub, version)]
        return [pair for pair in both if pair not in self.converters]


class Converters:
    """The converters of all kinds."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], _Versions] = {}

    def add(
        self,
        source: type[Source],
        target: type[Target],
        function: Callable[[Source], Target] | Callable[[Source], Awaitable[Target]],
    ) -> None:
        """Have a function make a version of a kind from another.

        Args:
            source: The class of the version it gets.
            target: The class of the version it returns. One of the two is the storage version.
            function: Async or plain, without side effects. It passes the object's metadata on
                and may change its labels and annotations. Where an object has no equivalent it
                raises `Denied`, whose message whoever asked for the object reads.

        Raises:
            ConfigurationError: The classes are no pair of versions, or have a function already.
        """
        hub = _hub(source, target)
        _check_function(function, source, target)
        kind = definition_of(hub).kind
        versions = self._kinds.get((kind.group, kind.kind)) or _Versions(hub, {_version(hub): hub})
        for cls, held in (
            (hub, versions.hub),
            *((each, versions.classes.get(_version(each), each)) for each in (source, target)),
        ):
            if cls is not held:
                raise ConfigurationError(
                    f"{cls.__name__}: {held.__name__} has its place among {kind.kind}'s versions",
                    remedy="use one class a version, and one storage version, in all converters",
                )
        pair = (_version(source), _version(target))
        if pair in versions.converters:
            raise ConfigurationError(
                f"{kind.kind}: {versions.converters[pair].name} makes {pair[1]} of {pair[0]} "
                f"already, and so would {name_of(function)}",
                remedy="remove one of them",
            )
        versions.converters[pair] = Converter(source, target, function)
        versions.classes |= {_version(source): source, _version(target): target}
        self._kinds[kind.group, kind.kind] = versions

    @property
    def kinds(self) -> list[list[AnyResource]]:
        """The classes of each kind, the storage version's first."""
        return [
            [each.hub, *(cls for cls in each.classes.values() if cls is not each.hub)]
            for each in self._kinds.values()
        ]

    def check_complete(self, served: Iterable[AnyResource]) -> None:
        """Check that every served version of a kind with converters reaches the hub and back.

        Args:
            served: The classes of all kinds' versions; one with served=False may lack converters.

        Raises:
            ConfigurationError: Names each function that is missing, and how to write it.
        """
        known = [cls for classes in self.kinds for cls in classes]
        missing: dict[str, str] = {}
        for cls in [*known, *served]:
            definition = definition_of(cls)
            versions = self._kinds.get((definition.kind.group, definition.kind.kind))
            if versions is None or not definition.served:
                continue
            for start, end in versions.missing(definition.kind.version):
                classes = {definition.kind.version: cls, versions.hub_version: versions.hub}
                missing[f"{definition.kind.kind}: {start} to {end}"] = _how_to_write(
                    classes[start], classes[end]
                )
        if missing:
            raise ConfigurationError(
                f"no converter for {', '.join(missing)}", remedy="; ".join(missing.values())
            )

    def route(self, api_version: str, kind: str, desired: str) -> Route:
        """The way of an object from its version to another; no steps if it is the same.

        Args:
            api_version: The object's.
            kind: The object's.
            desired: The apiVersion wanted.

        Raises:
            ConversionFailed: There is none.
        """
        group, _, version = api_version.rpartition("/")
        desired_group, _, desired_version = desired.rpartition("/")
        versions = self._kinds.get((group, kind))
        if versions is None:
            raise ConversionFailed("the operator has no converters for this kind")
        if desired_group != group:
            raise ConversionFailed(f"{desired} is a version of another group")
        return versions.route(version, desired_version)


def _version(cls: AnyResource) -> str:
    return definition_of(cls).kind.version


def _hub(source: AnyResource, target: AnyResource) -> AnyResource:
    kinds = [definition_of(cls).kind for cls in (source, target)]
    pair = f"a converter from {source.__name__} to {target.__name__}"
    for attribute in ("kind", "group", "plural", "namespaced"):
        here, there = (getattr(kind, attribute) for kind in kinds)
        if here != there:
            raise ConfigurationError(
                f"{pair}: they are not of one kind, {attribute} is {here!r} and {there!r}",
                remedy="give both classes the same group, kind, plural and scope",
            )
    if kinds[0].version == kinds[1].version:
        raise ConfigurationError(
            f"{pair}: both are {kinds[0].version}", remedy="give each version one class"
        )
    stored = [cls for cls in (source, target) if definition_of(cls).storage]
    if len(stored) != 1:
        raise ConfigurationError(
            f"{pair}: {'both are' if stored else 'none is'} the storage version",
            remedy="convert to and from the one version that is stored; the others have the class "
            "keyword storage=False",
        )
    return stored[0]


def _check_function(function: Callable[..., Any], source: AnyResource, target: AnyResource) -> None:
    try:
        inspect.signature(function).bind(None)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"converter {name_of(function)} can't be called with one object: {error}",
            remedy=f"define it as: def {name_of(function)}(old: {source.__name__}) -> "
            f"{target.__name__}",
        ) from None


def _how_to_write(source: AnyResource, target: AnyResource) -> str:
    start, end = source.__name__, target.__name__
    name = f"{definition_of(source).kind.version}_to_{definition_of(target).kind.version}"
    return f"write @operator.convert({start}, {end}) def {name}(old: {start}) -> {end}"
