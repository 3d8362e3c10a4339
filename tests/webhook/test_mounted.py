"""A certificate in files, changed as the kubelet, cert-manager and careless scripts change them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from rws_operator.testing.eventually import eventually
from rws_operator.webhook import mounted
from rws_operator.webhook.certificate import WebhookCertificate
from rws_operator.webhook.mounted import MountedCertificate
from rws_operator.webhook.serving_tls import ServingTls
from tests.webhook.issuer import odd_certificates
from tests.webhook.keeper_kit import handshake, shows_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

NAMES = ("hook.ns.svc",)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look more often than a pod needs to."""
    monkeypatch.setattr(mounted, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(mounted, "_FIRST_POLL_SECONDS", 0.02)


def write(folder: Path, certificate: WebhookCertificate) -> None:
    """Write both files."""
    folder.mkdir(exist_ok=True)
    (folder / "tls.crt").write_text(certificate.cert_pem)
    (folder / "tls.key").write_text(certificate.key_pem)


def a_certificate(lifetime: float = 3600) -> WebhookCertificate:
    """Another one each time."""
    return WebhookCertificate.generate("hook", "ns", lifetime_seconds=lifetime)


def serves(serving: ServingTls, certificate: WebhookCertificate) -> bool:
    """Whether this is served."""
    served = serving.certificate
    return served is not None and served.cert_pem == certificate.cert_pem


def has_problem(followed: MountedCertificate, text: str) -> bool:
    """Whether the problem says this."""
    return text in "".join(followed.notes())


@contextlib.asynccontextmanager
async def following(
    folder: Path, names: Sequence[str] = NAMES
) -> AsyncIterator[tuple[MountedCertificate, ServingTls]]:
    """A mounted certificate that is followed."""
    serving = ServingTls()
    followed = MountedCertificate(
        folder / "tls.crt", folder / "tls.key", names=names, serving=serving
    )

    async def life() -> None:
        await followed.obtain()
        await followed.run(asyncio.Event())

    task = asyncio.create_task(life())
    yield followed, serving
    assert not task.done()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.behaviour("CRT-01")
async def test_a_kubelets_swap_is_followed(tmp_path):
    """The files are links into ..data, itself a link that is replaced at once."""
    mount = tmp_path / "mount"
    mount.mkdir()
    old, new = a_certificate(), a_certificate()
    write(mount / "..2026_1", old)
    (mount / "..data").symlink_to("..2026_1")
    for name in ("tls.crt", "tls.key"):
        (mount / name).symlink_to(f"..data/{name}")
    async with following(mount) as (followed, serving):
        await eventually(5, lambda: serves(serving, old), 0.01)
        assert followed.check() is None
        write(mount / "..2026_2", new)
        (mount / "..data_tmp").symlink_to("..2026_2")
        os.replace(mount / "..data_tmp", mount / "..data")
        await eventually(5, lambda: serves(serving, new), 0.01)
        assert not followed.notes()
        server = await asyncio.start_server(_close, "127.0.0.1", 0, ssl=serving.context)
        await handshake(server.sockets[0].getsockname()[1], new.ca_pem, "hook.ns.svc")
        server.close()


@pytest.mark.usefixtures("filled_threads")
async def test_files_are_read_while_the_author_fills_every_thread(tmp_path):
    """Or a certificate would expire while it lies there renewed."""
    old, new = a_certificate(), a_certificate()
    write(tmp_path, old)
    async with following(tmp_path) as (_, serving):
        await eventually(5, lambda: serves(serving, old), 0.01)
        write(tmp_path, new)
        await eventually(5, lambda: serves(serving, new), 0.01)


@pytest.mark.behaviour("CRT-01")
async def test_half_a_change_keeps_the_old_pair(tmp_path, caplog):
    """A new certificate beside the old key, half a key, an empty file, none: each is waited for."""
    old, new = a_certificate(), a_certificate()
    odd = odd_certificates(old)
    write(tmp_path, old)
    async with following(tmp_path) as (followed, serving):
        await eventually(5, lambda: serves(serving, old), 0.01)
        for name, text, problem in (
            ("tls.crt", new.cert_pem, "don't belong together"),
            ("tls.key", new.key_pem[:120], "the key is no PEM"),
            ("tls.key", "", "the key is no PEM"),
            ("tls.crt", "\udcff", "no PEM"),
            ("tls.crt", odd["version 4"], "no PEM"),
            ("tls.crt", odd["curve"], "of no kind that can be served"),
            ("tls.key", None, "No such file"),
        ):
            if text is None:
                (tmp_path / name).unlink()
            else:
                (tmp_path / name).write_text(text, errors="surrogateescape")
            if name != "tls.crt":
                (tmp_path / "tls.crt").write_text(new.cert_pem)
            await eventually(5, partial(has_problem, followed, problem), 0.01)
            await asyncio.sleep(0.1)  # both files are seen as they are now
            told = len(caplog.records)
            await asyncio.sleep(0.1)
            assert len(caplog.records) == told  # once, not at each look
            assert serves(serving, old)
            assert followed.check() is None  # what is served is good
            assert not shows_key("".join(followed.notes()), old, new)
        write(tmp_path, new)
        await eventually(5, lambda: serves(serving, new), 0.01)
        assert not followed.notes()
    assert not shows_key(caplog.text, old, new)
    assert [each for each in caplog.records if each.levelno == logging.WARNING]


async def test_a_comment_may_be_in_any_encoding(tmp_path):
    """Tools write a friendly name above a certificate."""
    certificate = a_certificate()
    write(tmp_path, certificate)
    commented = f"friendlyName: Zürich\n{certificate.cert_pem}".encode("latin-1")
    (tmp_path / "tls.crt").write_bytes(commented)
    async with following(tmp_path) as (followed, serving):
        await eventually(5, lambda: serving.certificate, 0.01)
        assert followed.check() is None
        served = serving.certificate
        assert served is not None
        assert certificate.cert_pem in served.cert_pem


async def test_a_start_without_files_waits_for_them(tmp_path):
    """Readiness says what is missing."""
    certificate = a_certificate()
    async with following(tmp_path) as (followed, serving):
        await eventually(5, lambda: "No such file" in (followed.check() or ""), 0.01)
        assert str(tmp_path / "tls.crt") in (followed.check() or "")
        write(tmp_path, certificate)
        await eventually(5, lambda: serves(serving, certificate), 0.01)
        assert followed.check() is None


async def test_an_expired_pair_is_not_served(tmp_path):
    """The old one stays while it is valid; once it is not, readiness says so."""
    wall = [time.time()]
    old = WebhookCertificate.generate("hook", "ns")
    write(tmp_path, old)
    serving = ServingTls()
    followed = MountedCertificate(
        tmp_path / "tls.crt",
        tmp_path / "tls.key",
        names=NAMES,
        serving=serving,
        wall_clock=lambda: wall[0],
    )
    await followed.obtain()
    wall[0] = serving.expires_at - 1
    write(tmp_path, a_certificate())  # for an hour, from the real now on
    await followed._look()
    assert serves(serving, old)
    assert has_problem(followed, "has expired")
    assert followed.check() is None
    wall[0] += 1
    assert "has expired" in (followed.check() or "")


async def test_a_pair_that_is_not_valid_yet_is_not_served(tmp_path):
    """Neither from the start nor in place of one that is; a clock set back is told."""
    wall = [time.time() - 3 * 86400]
    first = a_certificate(30 * 86400)
    write(tmp_path, first)
    serving = ServingTls()
    followed = MountedCertificate(
        tmp_path / "tls.crt",
        tmp_path / "tls.key",
        names=NAMES,
        serving=serving,
        wall_clock=lambda: wall[0],
    )
    await followed._look()
    assert serving.certificate is None
    assert "not valid yet" in (followed.check() or "")
    wall[0] = time.time()
    await followed.obtain()
    assert followed.check() is None
    wall[0] -= 3 * 86400
    write(tmp_path, a_certificate())
    await followed._look()
    assert serves(serving, first)
    assert "not valid yet" in (followed.check() or "")


async def test_a_certificate_for_other_names_is_told(tmp_path, caplog):
    """Once in the log; it is served, as only the API server knows what it calls us by."""
    write(tmp_path, a_certificate())
    async with following(tmp_path, ["other.ns.svc", "host.example.com"]) as (followed, serving):
        await eventually(5, followed.notes, 0.01)
        [note] = followed.notes()
        assert "is for hook, hook.ns, hook.ns.svc, " in note
        assert "if the API server calls other.ns.svc, add that" in note
        assert followed.check() is None
        await asyncio.sleep(0.1)
        assert [note] == followed.notes()
        assert caplog.text.count("look at this") == 1
        host = WebhookCertificate.generate_for("by URL", ["*.example.com"])
        write(tmp_path, host)
        await eventually(5, lambda: serves(serving, host), 0.01)
        await eventually(5, lambda: not followed.notes(), 0.01)


async def test_an_unchanged_pair_is_not_loaded_again(tmp_path, monkeypatch):
    """Nothing is done at each look but reading."""
    write(tmp_path, a_certificate())
    async with following(tmp_path) as (_, serving):
        await eventually(5, lambda: serving.certificate, 0.01)
        uses: list[WebhookCertificate] = []
        monkeypatch.setattr(serving, "use", uses.append)
        await asyncio.sleep(0.2)
        assert not uses


async def _close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
