"""Tests of what a control plane holds while it lives: its folder and its port."""

import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest

from rws_operator.testing import folder as folders
from rws_operator.testing.folder import (
    announce,
    announced_folders,
    owned_folder,
    reserved_port,
    sweep,
)


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep these tests from sweeping the machine's real temporary folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_a_folder_is_private_and_goes_with_its_owner():
    """It is closed to other users while open, and gone afterwards."""
    with owned_folder() as folder:
        (folder / "etcd").mkdir()
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()


def test_the_next_start_removes_only_what_nobody_owns(tmp_path: Path):
    """A dead owner's folder is swept; a live one's and a stranger's are not touched."""
    with owned_folder() as owned:
        abandoned, new, strange = (
            tmp_path / name for name in ("rws-controlplane-x", "rws-controlplane-y", "other")
        )
        for folder in (abandoned, new, strange):
            folder.mkdir()
        (abandoned / "owner.lock").touch()
        (strange / "owner.lock").touch()
        sweep()
        assert not abandoned.exists()
        assert owned.exists()
        assert new.exists()  # made a moment ago, not locked yet
        assert strange.exists()


def test_a_reserved_port_is_only_for_servers_that_share_it():
    """Nobody takes the port between a kill and a restart; the API server gets all connections."""
    with reserved_port() as port:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind(("127.0.0.1", port))
            server.listen()
            for _ in range(20):
                socket.create_connection(("127.0.0.1", port), timeout=2).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=2)


def test_another_users_control_plane_is_not_told(monkeypatch: pytest.MonkeyPatch):
    """Whoever evaluates what is told would use a kubeconfig of somebody else's making."""
    with owned_folder() as folder:
        announce(folder)
        assert announced_folders() == [folder]
        own = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: own + 1)
        assert announced_folders() == []


def test_a_control_plane_that_ends_meanwhile_is_not_told(monkeypatch: pytest.MonkeyPatch):
    """Nor does it keep another from being told."""
    with owned_folder() as staying, owned_folder() as ending:
        announce(staying)
        announce(ending)
        is_held = folders._is_held

        def end_after_a_look(looked_at: Path) -> bool:
            found = is_held(looked_at)
            if looked_at == ending:
                shutil.rmtree(ending)
            return found

        monkeypatch.setattr(folders, "_is_held", end_after_a_look)
        assert announced_folders() == [staying]
