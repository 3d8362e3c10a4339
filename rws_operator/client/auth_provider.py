"""Kubeconfig users of an auth-provider other than OIDC, through kubernetes_asyncio's loader.

The library is imported when the first credential is asked for, and by nothing else of ours: it
costs 40 MB. A refreshed token stays in this process; the kubeconfig is not written. The program of
a gcp user is run here: one that the library had started, nothing would end.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import shlex
from collections.abc import MutableMapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec

from rws_operator.client.credentials import Credential, bearer
from rws_operator.client.program import Program
from rws_operator.errors import KubeconfigError
from rws_operator.own_threads import in_own_thread

if TYPE_CHECKING:
    from pathlib import Path

_DEADLINE_SECONDS = 20.0
"""Less than a request's own deadline, so that the error names the provider."""

_LOOK_AGAIN_SECONDS = 60.0
"""How often the loader is asked; it refreshes five minutes before the token expires."""


class _Credential(msgspec.Struct):
    access_token: str
    token_expiry: str


class _Answer(msgspec.Struct):
    """What a gcp user's program prints."""

    credential: _Credential


class AuthProvider:
    """A user's auth-provider.

    Args:
        provider: The kubeconfig's ``auth-provider``: name and config.
        folder: Folder of the kubeconfig, for relative paths.
        source: Where it was read, for error messages.
    """

    def __init__(self, provider: MutableMapping[str, Any], folder: Path, source: str) -> None:
        self._provider = provider
        self._folder = folder
        self._source = source
        self._loader: Any = None

    def __str__(self) -> str:
        return f"{self._source}: auth-provider {self._provider.get('name')}"

    async def renew(self, *, refused: bool) -> Credential:
        """Let the loader refresh the token if it has to.

        Raises:
            KubeconfigError: The provider refused, is unknown or took too long.
        """
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                authorization = await self._load(refused=refused)
        except KubeconfigError:
            raise
        except TimeoutError:
            raise self._error(f"did not answer within {_DEADLINE_SECONDS:g} s") from None
        except Exception as error:
            # The kind only: the library's messages may quote the provider's answer.
            raise self._error(f"gave no token ({type(error).__name__})") from None
        if authorization is None:
            raise self._error("is not known")
        token = authorization.removeprefix("Bearer ")
        return Credential(bearer(token, self._source), seconds=_LOOK_AGAIN_SECONDS)

    async def _load(self, *, refused: bool) -> str | None:
        if refused and isinstance(config := self._provider.get("config"), MutableMapping):
            # Without them the loader has to ask for new ones.
            config.pop("id-token", None)
            config.pop("access-token", None)
        library = await in_own_thread(
            importlib.import_module, "kubernetes_asyncio.config.kube_config"
        )
        if self._loader is None:
            self._loader = library.KubeConfigLoader(
                _kubeconfig(self._provider),
                get_google_credentials=self._ask_google,
                config_base_path=str(self._folder),
            )
        configuration = library.Configuration()
        await self._loader.load_and_set(configuration)
        found = configuration.api_key.get("BearerToken")
        return found if isinstance(found, str) else None

    async def _ask_google(self) -> SimpleNamespace:
        """Run the program of a gcp user, and return its token for the loader."""
        config = self._provider["config"]
        program = await Program.start(
            config["cmd-path"], *shlex.split(config["cmd-args"]), environment=os.environ
        )
        try:
            await program.ended.wait()
            await program.printed.wait()
        finally:
            await program.end()
        found = msgspec.json.decode(program.output, type=_Answer).credential
        return SimpleNamespace(token=found.access_token, expiry=found.token_expiry)

    def _error(self, what: str) -> KubeconfigError:
        return KubeconfigError(f"{self} {what}", remedy="log in again")


def _kubeconfig(provider: MutableMapping[str, Any]) -> dict[str, Any]:
    """Return the least kubeconfig that the loader takes; the rest is read by ourselves."""
    return {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": "http://localhost"}}],
        "users": [{"name": "it", "user": {"auth-provider": provider}}],
    }
