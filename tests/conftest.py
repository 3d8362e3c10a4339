"""What all tests share: virtual time on request, and no network beyond this machine.

The fixtures `control_plane`, `cluster` and `namespace` come from `pytest_rws_operator`.
"""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rws_operator.testing.kubeconfig import Access
from rws_operator.testing.network_guard import NetworkGuard
from rws_operator.testing.virtual_time import VirtualTimeLoop
from tests.behaviours import BEHAVIOURS

# A shell ignores SIGINT for what it starts in the background, and its children inherit that:
# the tests of Ctrl-C would then send it to programs that never hear of it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a mark that names no behaviour, or one that is not kept yet."""
    kept = {key for key, each in BEHAVIOURS.items() if not each.not_yet}
    for item in items:
        for mark in item.iter_markers("behaviour"):
            if not mark.args or mark.kwargs or not kept >= set(mark.args):
                message = f"{item.nodeid}: not kept by tests/behaviours.py: {mark.args}"
                raise pytest.UsageError(message)


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run a test marked `virtual_time`, and its async fixtures, in virtual time."""
    if item.get_closest_marker("virtual_time"):
        return {"virtual": VirtualTimeLoop}
    return {"real": asyncio.new_event_loop}


def _hosts_of_existing_cluster() -> list[str]:
    path = os.environ.get("RWS_TEST_KUBECONFIG")
    return [urlsplit(Access.read(Path(path)).server).hostname or ""] if path else []


@pytest.fixture(scope="session")
def network_guard() -> Iterator[NetworkGuard]:
    """The guard that all tests run under."""
    guard = NetworkGuard(*_hosts_of_existing_cluster())
    guard.install()
    yield guard
    guard.active = False


@pytest.fixture
async def filled_threads() -> AsyncIterator[None]:
    """The threads of `asyncio.to_thread` are all at work for the author, as long as the test."""
    end = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    held = loop.run_in_executor(None, end.wait)
    yield
    were_filled = not held.done()
    end.set()
    assert were_filled


@pytest.fixture(autouse=True)
def _loopback_only(network_guard: NetworkGuard) -> Iterator[None]:
    """Fail a test that tried to reach the network, even if its code swallowed the error."""
    network_guard.refused.clear()
    yield
    assert not network_guard.refused
