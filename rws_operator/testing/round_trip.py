"""`round_trip_check`: proves that converters lose nothing, without an API server.

Objects go to another version and back as they would through the conversion webhook, unknown
fields, labels and annotations among them, and have to be what they were.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec

from rws_operator.controller.handlers import name_of
from rws_operator.errors import ConfigurationError, DecodeError, OperatorError
from rws_operator.resources import CustomResource, to_wire
from rws_operator.resources.custom_resource import definition_of, schema_of
from rws_operator.resources.model import wire_form
from rws_operator.testing.differences import differences
from rws_operator.testing.generated import hypothesis, objects
from rws_operator.webhook.conversion_object import FunctionCall, by_classes, run, run_async
from rws_operator.webhook.conversion_review import read_parts
from rws_operator.webhook.converters import Converters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rws_operator.webhook.converters import Route


def round_trip_check(
    *converters: Converters | Callable[[Any], Any],
    samples: Iterable[CustomResource | Mapping[str, Any]] | None = None,
    examples: int = 100,
) -> None:
    """Check that objects come back from other versions as they were.

    Each goes from its version to the storage version and back, or from the storage version to each
    other one and back. A default that was absent and is there afterwards, or the other way round,
    is no difference, nor is another text of the same duration, quantity or point in time.

    Args:
        *converters: The functions of `Operator.convert`, whose annotations name the classes, or
            `Converters`.
        samples: Objects to try, of any of the versions. None has hypothesis, which is to be
            installed then, make them from the schemas of the classes, the same ones each time.
        examples: How many objects of each version are made where there are no samples.

    Raises:
        AssertionError: An object came back different, or could not be converted; names the path,
            both values and the object.
        ConfigurationError: A function is missing, or its annotations don't name its classes.
    """
    known = _converters(converters)
    known.check_complete(())
    if samples is None:
        for cls, others in _versions(known):
            _check_generated(known, cls, others, examples)
        return
    for sample in samples:
        raw = to_wire(sample)
        for other in _others(known, raw):
            _check(known, raw, other)


def _converters(given: Iterable[Any]) -> Converters:
    if not (functions := list(given)):
        raise ConfigurationError(
            "round_trip_check: there is nothing to check", remedy="pass the converters"
        )
    if len(functions) == 1 and isinstance(functions[0], Converters):
        return functions[0]
    made = Converters()
    for function in functions:
        made.add(*_classes(function), function)
    return made


def _classes(function: Any) -> tuple[type[CustomResource], type[CustomResource]]:
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError):
        hints = {}
    target = hints.pop("return", None)
    match list(hints.values()):
        case [source] if _is_kind(source) and _is_kind(target):
            return source, target
    raise ConfigurationError(
        f"round_trip_check: the annotations of {name_of(function)} don't name its two classes",
        remedy="write def upgrade(old: BackupV1Alpha1) -> Backup at a module's level, or pass "
        "Converters",
    )


def _is_kind(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, CustomResource)


def _versions(
    converters: Converters,
) -> Iterator[tuple[type[CustomResource], list[type[CustomResource]]]]:
    """Each class, and those to which its objects go and come back from."""
    for hub, *others in converters.kinds:
        yield hub, others
        yield from ((each, [hub]) for each in others)


def _others(converters: Converters, raw: Mapping[str, Any]) -> list[type[CustomResource]]:
    for cls, others in _versions(converters):
        kind = definition_of(cls).kind
        if (kind.api_version, kind.kind) == (raw.get("apiVersion"), raw.get("kind")):
            return others
    raise ConfigurationError(
        f"round_trip_check: no converter is for a sample of {raw.get('apiVersion')} "
        f"{raw.get('kind')}",
        remedy="pass samples of the converters' classes",
    )


def _check_generated(
    converters: Converters,
    cls: type[CustomResource],
    others: list[type[CustomResource]],
    examples: int,
) -> None:
    module = hypothesis()
    tried = 0

    def check(raw: dict[str, Any]) -> None:
        nonlocal tried
        try:
            cls.from_wire(raw)
        except DecodeError:
            module.reject()
        tried += 1
        for other in others:
            _check(converters, raw, other)

    settings = module.settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(module.Phase.generate, module.Phase.shrink),
        suppress_health_check=list(module.HealthCheck),
    )
    with contextlib.suppress(module.errors.Unsatisfiable):
        settings(module.given(objects(cls))(check))()
    if not tried:
        raise ConfigurationError(
            f"round_trip_check: no object could be made that {cls.__name__} can read",
            remedy="its validators are too narrow for chance: pass samples=[...]",
        )


def _check(converters: Converters, raw: dict[str, Any], other: type[CustomResource]) -> None:
    kind, there = raw["kind"], definition_of(other).kind.api_version
    here = raw["apiVersion"]
    out = converters.route(here, kind, there)
    back = converters.route(there, kind, here)
    way = f"{out.source.__name__} to {other.__name__} and back"
    try:
        returned = _convert(back, _convert(out, raw))
    except OperatorError as error:
        raise AssertionError(f"{way}: it can't be converted: {error}\n{_shown(raw)}") from error
    pair = (_full(out.source, raw), _full(out.source, returned))
    for path, before, after in differences(*pair, schema_of(out.source)):
        raise AssertionError(
            f"{way}: {path} was {_value(before)} and came back as {_value(after)}\n{_shown(raw)}"
        )


def _convert(route: Route, raw: Mapping[str, Any]) -> dict[str, Any]:
    calls = by_classes(route, read_parts(msgspec.json.encode(raw)))
    return _in_thread(run_async(calls, _call)) if route.is_async else run(calls)


async def _call(call: FunctionCall) -> Any:
    return call.function(*call.arguments)


def _in_thread(coroutine: Any) -> Any:
    """Run a coroutine on a loop of its own: the caller may be on one."""
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.extend((asyncio.run(coroutine), None))
        except Exception as error:
            outcome.extend((None, error))

    thread = threading.Thread(target=work, name="round-trip", daemon=True)
    thread.start()
    thread.join()
    result, error = outcome
    if error is not None:
        raise error
    return result


def _full(cls: type[CustomResource], raw: Mapping[str, Any]) -> dict[str, Any]:
    return wire_form(cls.from_wire(raw), "kept")


def _value(value: Any) -> str:
    return "absent" if value is None else json.dumps(value, ensure_ascii=False)


def _shown(raw: Mapping[str, Any]) -> str:
    return f"the object: {json.dumps(raw, ensure_ascii=False)}"
