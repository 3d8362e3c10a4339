"""A real API server that can't stream lists: its feature gate is off, as in Kubernetes 1.33."""

import pytest

from rws_operator.testing.cluster import TestCluster
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.eventually import eventually
from rws_operator.testing.gate import Gate
from rws_operator.watch import State
from tests.watch.kit import watching


async def test_a_server_without_streamed_lists_is_found_out(caplog: pytest.LogCaptureFixture):
    """The server's own refusal leads to pages, once; relists then ask for pages at once."""
    caplog.set_level("INFO", "rws_operator.watch")
    async with (
        ControlPlane(api_server_args=["--feature-gates=WatchList=false"]) as control_plane,
        await TestCluster.connect(control_plane.kubeconfig) as cluster,
        Gate(control_plane.kubeconfig) as gate,
        watching(gate, cluster.client, "default") as watched,
    ):
        await watched.make("a")
        await watched.shows("a", within=5)
        assert gate.expire_watches(resource="secrets") == 1
        await eventually(10, lambda: watched.informer.health.relists == 1)
        await watched.make("b")
        await watched.shows("b")
        await eventually(10, lambda: gate.open_watches(resource="secrets"))
        asked = ["stream" if "sendInitialEvents" in r.query else r.verb for r in gate.asked()]
        assert watched.informer.health.state is State.WATCH
    assert asked == ["stream", "list", "watch", "list", "watch"]
    assert "no streamed lists here" in caplog.text
