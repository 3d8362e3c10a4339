"""`Webhooks`: which functions answer which paths.

The lower form of the decorators on Operator. It only holds what was registered; `http` answers
the calls, `documents` writes the configurations that make the API server call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from rws_operator.errors import ConfigurationError
from rws_operator.resources import CustomResource
from rws_operator.webhook.admission import Admission
from rws_operator.webhook.conversion import RawConversion
from rws_operator.webhook.http import Route, not_found
from rws_operator.webhook.registration import check_function, check_path, register
from rws_operator.webhook.room import Room
from rws_operator.whereabouts import handling

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from aiohttp import web

    from rws_operator.client import Client
    from rws_operator.resources import Kind, KindLike
    from rws_operator.webhook.endpoint import Endpoint
    from rws_operator.webhook.registration import Registration, RegistrationOptions
    from rws_operator.webhook.request import AdmissionRequest

R = TypeVar("R", bound=CustomResource)


class Webhooks:
    """The functions that review requests and convert objects, by path.

    Args:
        client: What handlers get as `AdmissionRequest.client`; see `bind`.
    """

    def __init__(self, *, client: Client | None = None) -> None:
        self._client = client
        self._registrations: list[Registration] = []
        self._routes: dict[str, Route] = {}
        self._room = Room()
        self._is_sealed = False

    @property
    def registrations(self) -> tuple[Registration, ...]:
        """The admission webhooks, in the order they were registered in."""
        return tuple(self._registrations)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """All that answers, admission and conversion."""
        return tuple(route.endpoint for route in self._routes.values())

    @overload
    def validate(
        self,
        kind: type[R],
        path: str,
        function: Callable[[AdmissionRequest[R]], Awaitable[None] | None],
        **options: Unpack[RegistrationOptions],
    ) -> Self: ...
    @overload
    def validate(
        self,
        kind: Kind,
        path: str,
        function: Callable[[AdmissionRequest[dict[str, Any]]], Awaitable[None] | None],
        **options: Unpack[RegistrationOptions],
    ) -> Self: ...
    def validate(
        self,
        kind: KindLike,
        path: str,
        function: Callable[..., Any],
        **options: Unpack[RegistrationOptions],
    ) -> Self:
        """Have a function review requests; it raises `Denied` to refuse one.

        Raises:
            ConfigurationError: The path or the name is taken, or an option can't be used.
        """
        return self._register(register(False, kind, path, function, **options))

    @overload
    def mutate(
        self,
        kind: type[R],
        path: str,
        function: Callable[[AdmissionRequest[R]], Awaitable[R | None] | R | None],
        **options: Unpack[RegistrationOptions],
    ) -> Self: ...
    @overload
    def mutate(
        self,
        kind: Kind,
        path: str,
        function: Callable[
            [AdmissionRequest[dict[str, Any]]],
            Awaitable[dict[str, Any] | None] | dict[str, Any] | None,
        ],
        **options: Unpack[RegistrationOptions],
    ) -> Self: ...
    def mutate(
        self,
        kind: KindLike,
        path: str,
        function: Callable[..., Any],
        **options: Unpack[RegistrationOptions],
    ) -> Self:
        """Have a function change objects before they are stored.

        Raises:
            ConfigurationError: The path or the name is taken, or an option can't be used.
        """
        return self._register(register(True, kind, path, function, **options))

    def convert(
        self,
        path: str,
        function: Callable[[dict[str, Any], str], Any],
        kinds: Sequence[KindLike] = (),
    ) -> Self:
        """Have a function convert objects, given one and the version wanted.

        Args:
            path: Where it answers, e.g. ``/convert-backups``.
            function: Returns the object in that version; its apiVersion is set for it.
            kinds: What it converts, which an Operator must know: the class of each version, for
                the CRD, or a Kind whose CRD is somebody else's, and not printed; there its author
                names this webhook, and takes it out before the operator goes.

        Raises:
            ConfigurationError: The path is taken, or can't be one, or a kind is none.
        """
        check_function(function, f"convert {path}", "obj", "desired_version")
        return self.add(RawConversion(path, function, kinds))

    def add(self, endpoint: Endpoint) -> Self:
        """Have an endpoint of one's own answer its path.

        Raises:
            ConfigurationError: The path is taken, or can't be one; or the webhooks run already.
        """
        path = check_path(endpoint.path)
        self.check_open(f"the webhook at {path}")
        if path in self._routes:
            raise ConfigurationError(
                f"the path {path} has a webhook already", remedy="give one of them another path="
            )
        self._routes[path] = Route(endpoint)
        return self

    def copy(self) -> Webhooks:
        """The same functions at the same paths, not run so far."""
        copied = Webhooks(client=self._client)
        copied._registrations = self._registrations.copy()
        copied._routes = {path: Route(route.endpoint) for path, route in self._routes.items()}
        return copied

    def seal(self) -> None:
        """Take no more: what was registered is being run, and its documents are applied."""
        self._is_sealed = True

    def check_open(self, what: str) -> None:
        """Refuse what comes after the start.

        Raises:
            ConfigurationError: The webhooks were sealed.
        """
        if self._is_sealed:
            raise ConfigurationError(
                f"{what} was added after the start", remedy="add webhooks before run()"
            )

    def stuck(self) -> str | None:
        """Why plain handlers of some path can't be run any more, for a liveness check.

        Threads can't be ended, so nothing but a new process helps. None while there are threads
        at every path.
        """
        paths = [path for path, route in self._routes.items() if route.handlers.are_stuck]
        if not paths:
            return None
        return f"handlers hang in all threads of the webhooks at {', '.join(sorted(paths))}"

    def close(self) -> None:
        """Let the threads of plain handlers go: no call comes any more."""
        for route in self._routes.values():
            route.handlers.close()

    def bind(self, client: Client) -> None:
        """Give handlers a client, unless they have one."""
        if self._client is None:
            self._client = client

    def wrap(self, app: web.Application) -> web.Application:
        """Add the paths to an application, which answers all others itself.

        Call it last: what is registered afterwards is not added. An application of aiohttp
        unpacks compressed bodies itself, so they are read here, where the operator's own server
        answers 415.
        """
        for path in self._routes:
            app.router.add_route("*", path, self.handle)
        return app

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a call, for `aiohttp.web.Server`; a path that is not ours gets 404."""
        route = self._routes.get(request.path)
        if route is None:
            return not_found(request)
        handling.set({"webhook": request.path})
        return await route.respond(request, self._client, self._room)

    def _register(self, registration: Registration) -> Self:
        if any(each.name == registration.name for each in self._registrations):
            raise ConfigurationError(
                f"there is a webhook named {registration.name} already",
                remedy="give one of them another name=",
            )
        self.add(Admission(registration))
        self._registrations.append(registration)
        return self
