"""TLS: who is trusted, files that change, and certificates that are no files."""

import asyncio
import os
import ssl
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from rws_operator.client import tls
from rws_operator.client.credentials import Credential, RenewedCredentials
from rws_operator.client.tls import Tls, TlsContexts, make_context
from rws_operator.errors import ConnectionFailed, DeadlineExceeded, KubeconfigError
from rws_operator.testing.eventually import eventually
from rws_operator.testing.pki import CertificateAuthority
from tests.client.scripted import ScriptedServer, ok, scripted_server, serving


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look takes longer than a moment where the machine is busy."""
    monkeypatch.setattr(tls, "_MOMENT_SECONDS", 30.0)


async def test_a_server_that_is_not_trusted(tmp_path: Path) -> None:
    """The error names the address and the remedy; nothing was sent."""
    stranger = CertificateAuthority()
    async with scripted_server(serving(CertificateAuthority())) as server:
        async with server.client(tls=Tls(ca=stranger.cert_pem)) as client:
            with pytest.raises(ConnectionFailed, match="is not trusted") as caught:
                await client.request("PATCH", "/x", body=b"{}")
        assert server.seen == []
    message = str(caught.value)
    assert server.address in message
    assert "correct the certificate authority" in message
    assert "the test" in message
    assert "perhaps" not in message
    assert "\n" not in message


async def test_another_name_of_the_server() -> None:
    """tls-server-name is checked in place of the address's host."""
    authority = CertificateAuthority()
    async with scripted_server(serving(authority)) as server:
        server.answer(ok())
        for name, trusted in (("kubernetes", True), ("example.com", False)):
            tls = Tls(ca=authority.cert_pem, server_name=name)
            async with server.client(tls=tls) as client:
                if trusted:
                    await client.request("GET", "/x")
                else:
                    with pytest.raises(ConnectionFailed, match="is not trusted"):
                        await client.request("GET", "/x")
        assert len(server.seen) == 1


async def test_insecure_skips_the_check() -> None:
    """insecure-skip-tls-verify trusts anyone, as it says."""
    async with scripted_server(serving(CertificateAuthority())) as server:
        server.answer(ok())
        async with server.client(tls=Tls(insecure=True)) as client:
            assert (await client.request("GET", "/x")).status == 200


async def test_a_plain_server_behind_https() -> None:
    """A port that speaks no TLS is named as such."""
    async with scripted_server() as server:
        address = server.address.replace("http://", "https://")
        async with server.client(server=address) as client:
            with pytest.raises(ConnectionFailed, match="the TLS handshake failed") as caught:
                await client.request("GET", "/x")
    assert "\n" not in str(caught.value)


async def test_a_ca_file_that_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client heals without a restart; streams that are open stay open."""
    old, new = CertificateAuthority(), CertificateAuthority()
    ca = tmp_path / "ca.crt"
    ca.write_bytes(old.cert_pem)
    async with scripted_server(serving(old)) as first, scripted_server(serving(new)) as second:
        first.answer(ok())
        second.answer(ok())
        async with first.client(tls=Tls(ca=ca)) as client:
            await client.request("GET", "/x")
            # The same client is led to the server with the new certificate.
            monkeypatch.setattr(
                client._transport, "_url", type(client._transport._url)(second.address)
            )
            monkeypatch.setattr(client._transport, "_context", None)
            with pytest.raises(ConnectionFailed, match="is not trusted"):
                await client.request("GET", "/x")
            ca.write_bytes(new.cert_pem)
            assert (await client.request("GET", "/x")).status == 200


async def test_files_are_looked_at_now_and_then(tmp_path: Path) -> None:
    """A context lasts until its files change, and they are looked at every 10 s."""
    now = 0.0
    ca = tmp_path / "ca.crt"
    ca.write_bytes(CertificateAuthority().cert_pem)
    contexts = TlsContexts(Tls(ca=ca), lambda: now)
    first = await contexts.current()
    now = 20.0
    assert await contexts.current() is first
    replace(ca, CertificateAuthority().cert_pem)
    assert await contexts.current() is first
    now = 40.0
    assert await contexts.current() is not first


@pytest.mark.parametrize("content", [b"half a certif", b""])
async def test_a_broken_file_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    """A file that is being written, or was emptied, does not take the working context away."""
    now = 0.0
    ca = tmp_path / "ca.crt"
    ca.write_bytes(CertificateAuthority().cert_pem)
    contexts = TlsContexts(Tls(ca=ca), lambda: now)
    first = await contexts.current()
    replace(ca, content)
    now = 20.0
    assert await contexts.current() is first
    assert "the old ones stay" in caplog.text
    ca.unlink()
    now = 40.0
    assert await contexts.current() is first


@pytest.mark.parametrize("step", ["_fingerprint", "make_context"])
async def test_files_are_looked_at_and_read_off_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Meanwhile the loop goes on, and so do requests, with the old context."""
    now = 0.0
    ca = tmp_path / "ca.crt"
    ca.write_bytes(CertificateAuthority().cert_pem)
    contexts = TlsContexts(Tls(ca=ca), lambda: now)
    first = await contexts.current()
    reading, may_end = threading.Event(), threading.Event()
    quick = getattr(tls, step)

    def slow(*arguments: Any) -> Any:
        reading.set()
        assert may_end.wait(10)
        return quick(*arguments)

    monkeypatch.setattr(tls, step, slow)
    replace(ca, CertificateAuthority().cert_pem)
    now = 20.0
    renewing = asyncio.create_task(contexts.current())
    assert await asyncio.to_thread(reading.wait, 5)
    assert await contexts.current() is first
    may_end.set()
    assert await renewing is not first
    assert await contexts.current() is await renewing


class DeadDisk:
    """Looks at files that hang until the disk is back.

    Args:
        monkeypatch: Puts it between the contexts and their files.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks = 0
        self.back = threading.Event()
        self._quick = tls._fingerprint
        monkeypatch.setattr(tls, "_fingerprint", self._look)

    def _look(self, path: Path) -> Any:
        self.looks += 1
        assert self.back.wait(30)
        return self._quick(path)


async def test_a_dead_disk_under_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go on with the old context, whoever gives up; one look hangs, not ever more."""
    now = 0.0
    ca = tmp_path / "ca.crt"
    ca.write_bytes(CertificateAuthority().cert_pem)
    contexts = TlsContexts(Tls(ca=ca), lambda: now)
    first = await contexts.current()
    replace(ca, CertificateAuthority().cert_pem)
    disk = DeadDisk(monkeypatch)
    now = 20.0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await contexts.current()
    monkeypatch.setattr(tls, "_MOMENT_SECONDS", 0.01)
    pair = CertificateAuthority().client("jane")
    renewed = pair.cert_pem, pair.key_pem
    for certificate in (None, renewed, None, renewed):
        now += 20.0
        contexts.distrust()
        async with asyncio.timeout(10):
            assert await contexts.current(certificate) is first
    await eventually(10, lambda: disk.looks == 1)
    monkeypatch.setattr(tls, "_MOMENT_SECONDS", 30.0)
    disk.back.set()
    assert await contexts.current(renewed) is not first
    assert contexts._certificate is renewed


async def test_a_dead_disk_under_the_first_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first context is waited for, by one look for all; a close ends that."""
    ca = tmp_path / "ca.crt"
    ca.write_bytes(CertificateAuthority().cert_pem)
    monkeypatch.setattr(tls, "_MOMENT_SECONDS", 0.0)
    disk = DeadDisk(monkeypatch)
    client = ScriptedServer("https://localhost:1").client(tls=Tls(ca=ca))
    for _ in range(3):
        with pytest.raises(DeadlineExceeded):
            await client.request("GET", "/x", deadline=0.1)
    await eventually(10, lambda: disk.looks == 1)
    waiting = asyncio.create_task(client.request("GET", "/x"))
    await asyncio.sleep(0.1)
    await client.close()
    with pytest.raises(KubeconfigError, match="closed meanwhile"):
        await waiting
    assert disk.looks == 1
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "tls files"]
    disk.back.set()


async def test_requests_that_come_together_make_one_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first requests of a client wait for one context instead of making many."""
    made: list[ssl.SSLContext] = []

    def counted(*arguments: Any) -> ssl.SSLContext:
        made.append(make_context(*arguments))
        return made[-1]

    monkeypatch.setattr(tls, "make_context", counted)
    contexts = TlsContexts(Tls(ca=CertificateAuthority().cert_pem), lambda: 0.0)
    got = await asyncio.gather(*(contexts.current() for _ in range(5)))
    assert len(made) == 1
    assert set(got) == set(made)


def test_inline_certificates_leave_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The ssl module needs files: they are ours alone, and gone at once."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pair = CertificateAuthority().client("jane")
    modes: list[int] = []
    load = ssl.SSLContext.load_cert_chain

    def spy(self: ssl.SSLContext, certificate: Any, key: Any, password: Any) -> None:
        modes.extend(os.stat(name).st_mode & 0o777 for name in (certificate, key))
        load(self, certificate, key, password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
    make_context(Tls(certificate=pair.cert_pem, key=pair.key_pem))
    assert modes == [0o600, 0o600]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KubeconfigError):
        make_context(Tls(certificate=pair.cert_pem, key=b"no key"))
    assert list(tmp_path.iterdir()) == []


def test_an_encrypted_key_asks_nobody() -> None:
    """An encrypted key is an error, not a question at the terminal."""
    pair = CertificateAuthority().client("jane")
    key = load_pem_private_key(pair.key_pem, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    with pytest.raises(KubeconfigError, match="unencrypted key"):
        make_context(Tls(certificate=pair.cert_pem, key=key))


def test_a_key_of_another_certificate() -> None:
    """A pair that does not belong together is refused, naming both."""
    authority = CertificateAuthority()
    with pytest.raises(KubeconfigError, match="certificate inline data and key inline data"):
        make_context(
            Tls(certificate=authority.client("a").cert_pem, key=authority.client("b").key_pem)
        )


async def test_a_plugins_certificate_is_renewed() -> None:
    """A certificate that a plugin brings is shown to the server; the next one after a renewal."""
    authority = CertificateAuthority()
    context = serving(authority)
    context.load_verify_locations(cadata=authority.cert_pem.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    users: list[str] = []

    class Plugin:
        runs = 0

        async def renew(self, *, refused: bool) -> Credential:
            del refused
            self.runs += 1
            pair = authority.client(f"user-{self.runs}")
            return Credential(None, (pair.cert_pem, pair.key_pem))

    async def who(request: Any) -> Any:
        subject = request.transport.get_extra_info("peercert")["subject"]
        users.append(subject[0][0][1])
        return ok()

    async with scripted_server(context) as server:
        server.answer(who)
        credentials = RenewedCredentials(Plugin())
        async with server.client(credentials, tls=Tls(ca=authority.cert_pem)) as client:
            await client.request("GET", "/x")
            credentials._hear_refusals_at = 0.0
            assert await credentials.refused(None)
            await client.request("GET", "/x")
    assert users == ["user-1", "user-2"]


def replace(path: Path, content: bytes) -> None:
    """Replace a file as a kubelet does, by another of the same name."""
    other = path.with_suffix(".new")
    other.write_bytes(content)
    other.replace(path)
