"""The decorators of `Operator.validate`, `mutate` and `convert`, as a type checker sees them.

Each takes an async or a plain function, registers it and returns it unchanged, so that it can be
called, tested and decorated again as it was written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from rws_operator.resources import CustomResource

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from rws_operator.webhook.request import AdmissionRequest

T = TypeVar("T")
S = TypeVar("S", bound=CustomResource)
G = TypeVar("G", bound=CustomResource)
N = TypeVar("N", bound="Coroutine[Any, Any, None] | None")


class ValidateDecorator(Generic[T]):
    """What `Operator.validate` returns."""

    def __init__(self, register: Callable[[Callable[..., Any]], None]) -> None:
        self._register = register

    def __call__(
        self, function: Callable[[AdmissionRequest[T]], N]
    ) -> Callable[[AdmissionRequest[T]], N]:
        """Register the function."""
        self._register(function)
        return function


class MutateDecorator(Generic[T]):
    """What `Operator.mutate` returns."""

    def __init__(self, register: Callable[[Callable[..., Any]], None]) -> None:
        self._register = register

    @overload
    def __call__(
        self, function: Callable[[AdmissionRequest[T]], Coroutine[Any, Any, T | None]]
    ) -> Callable[[AdmissionRequest[T]], Coroutine[Any, Any, T | None]]: ...
    @overload
    def __call__(
        self, function: Callable[[AdmissionRequest[T]], T | None]
    ) -> Callable[[AdmissionRequest[T]], T | None]: ...
    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the function."""
        self._register(function)
        return function


class ConvertDecorator(Generic[S, G]):
    """What `Operator.convert` returns."""

    def __init__(self, register: Callable[[Callable[..., Any]], None]) -> None:
        self._register = register

    @overload
    def __call__(
        self, function: Callable[[S], Coroutine[Any, Any, G]]
    ) -> Callable[[S], Coroutine[Any, Any, G]]: ...
    @overload
    def __call__(self, function: Callable[[S], G]) -> Callable[[S], G]: ...
    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the function."""
        self._register(function)
        return function
