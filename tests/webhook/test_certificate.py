"""The certificate: what it is good for, the Secret it lives in, and that its key stays hidden."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import os
import ssl
import stat
import tempfile
import time
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from rws_operator.errors import ConfigurationError
from rws_operator.resources import kinds
from rws_operator.webhook import serving_tls
from rws_operator.webhook.ca_bundle import BundleEntry
from rws_operator.webhook.certificate import WebhookCertificate
from rws_operator.webhook.certificate_secret import new_pair, read_secret
from rws_operator.webhook.certificate_terms import YEAR_SECONDS, normal_name, service_names
from rws_operator.webhook.inspection import authorities, covers, inspect
from rws_operator.webhook.issue import issue
from rws_operator.webhook.pems import Pems
from rws_operator.webhook.serving_tls import ServingTls
from tests.webhook.issuer import odd_certificates
from tests.webhook.keeper_kit import CRD, MUTATING, SECRET, VALIDATING, Site, handshake, shows_key


def handshake_in_memory(certificate: WebhookCertificate, trusted: str, name: str) -> None:
    """A TLS handshake without a network."""
    serving = ServingTls()
    serving.use(certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cadata=trusted)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    client = context.wrap_bio(to_client, to_server, server_hostname=name)
    server = serving.context.wrap_bio(to_server, to_client, server_side=True)
    waiting: list[ssl.SSLObject] = [client, server]
    for _ in range(20):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
    assert not waiting


class TestGenerate:
    """What is made."""

    @pytest.mark.parametrize("name", service_names("hook", "ns"))
    def test_is_valid_for_each_name_of_the_service(self, name):
        """A client that trusts the CA, and is strict, accepts it by each name."""
        certificate = WebhookCertificate.generate("hook", "ns")
        handshake_in_memory(certificate, certificate.ca_pem, name)

    def test_is_valid_for_addresses_and_nothing_else(self):
        """Names and IP addresses of webhooks by URL; any other is refused."""
        certificate = WebhookCertificate.generate_for("me", ["127.0.0.1", "::1", "a.example.com"])
        for name in ("127.0.0.1", "::1", "a.example.com"):
            handshake_in_memory(certificate, certificate.ca_pem, name)
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake_in_memory(certificate, certificate.ca_pem, "b.example.com")

    def test_each_has_an_authority_of_its_own(self):
        """One made later is not trusted by the older's CA, and both may stand in one bundle."""
        old = WebhookCertificate.generate("hook", "ns")
        new = WebhookCertificate.generate("hook", "ns")
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake_in_memory(new, old.ca_pem, "hook.ns.svc")
        for each in (old, new):
            handshake_in_memory(each, new.ca_pem + old.ca_pem, "hook.ns.svc")

    def test_long_names_and_lifetimes(self):
        """A name beyond the subject's 64 characters; notBefore a day back, as clocks differ."""
        certificate = WebhookCertificate.generate("h" * 63, "n" * 63, lifetime_seconds=60)
        handshake_in_memory(certificate, certificate.ca_pem, f"{'h' * 63}.{'n' * 63}.svc")
        for pem in (certificate.cert_pem, certificate.ca_pem):
            read = x509.load_pem_x509_certificate(pem.encode())
            lifetime = read.not_valid_after_utc - read.not_valid_before_utc
            assert lifetime.total_seconds() == 60 + 86400

    def test_refuses_what_cannot_be_a_name(self):
        """Each with a remedy."""
        with pytest.raises(ConfigurationError, match="no name"):
            WebhookCertificate.generate_for("me", [])
        with pytest.raises(ConfigurationError, match=r"give DNS names"):
            WebhookCertificate.generate_for("me", ["bücher.example"])
        for seconds in (-2 * 86400, 1e12):
            with pytest.raises(ConfigurationError, match="lifetime_seconds"):
                WebhookCertificate.generate("hook", "ns", lifetime_seconds=seconds)
        with pytest.raises(ConfigurationError, match="service"):
            WebhookCertificate.generate("Hook", "ns")

    @pytest.mark.parametrize(
        "name", ["0:0:0:0:0:0:0:1", "::FFFF:127.0.0.1", "127.0.0.1", "A.Example.com", "*.b.example"]
    )
    def test_a_names_normal_form_is_what_the_certificate_says(self, name):
        """However it was written, so that a certificate is not renewed for a name it has."""
        certificate = WebhookCertificate.generate_for("me", [name])
        assert new_pair(certificate).names == {normal_name(name)}
        assert normal_name(normal_name(name)) == normal_name(name)


class TestSecretForm:
    """To a Secret and back."""

    def test_there_and_back(self):
        """A kubernetes.io/tls Secret with cert-manager's keys."""
        certificate = WebhookCertificate.generate("hook", "ns")
        secret = certificate.to_secret("tls", "ns")
        assert secret["type"] == "kubernetes.io/tls"
        assert set(secret["data"]) == {"tls.crt", "tls.key", "ca.crt"}
        assert WebhookCertificate.from_secret(secret) == certificate

    def test_every_unusable_secret_is_told_without_the_key(self):
        """Missing, empty, no base64, no text, no PEM, a stranger's key or CA."""
        certificate = WebhookCertificate.generate("hook", "ns")
        other = WebhookCertificate.generate("hook", "ns")
        whole = certificate.to_secret("tls", "ns")["data"]
        theirs = other.to_secret("tls", "ns")["data"]
        truncated = base64.b64encode(certificate.key_pem[:100].encode()).decode()
        cases: list[tuple[dict[str, Any], str]] = [
            ({}, "tls.key is missing"),
            ({"tls.key": ""}, "tls.key is missing"),
            ({"tls.key": whole["tls.key"][:-3]}, "tls.key is no base64"),
            ({"tls.key": "/w=="}, "the key is no PEM"),
            ({"tls.key": truncated}, "the key is no PEM"),
            ({"tls.key": theirs["tls.key"]}, "don't belong together"),
            ({"tls.key": whole["tls.crt"]}, "the key is no PEM"),
            ({"tls.crt": whole["tls.key"]}, "the certificate is no PEM"),
            ({"ca.crt": whole["tls.key"]}, "the CA is no PEM"),
            ({"ca.crt": theirs["ca.crt"]}, "the CA did not sign"),
        ]
        for changes, message in cases:
            data = {**whole, **changes}
            if not changes:
                del data["tls.key"]
            with pytest.raises(ConfigurationError, match=message) as caught:
                WebhookCertificate.from_secret({"metadata": {"name": "tls"}, "data": data})
            assert caught.value.remedy
            assert not shows_key(repr(caught.value), certificate, other)
            assert caught.value.__cause__ is None
            assert caught.value.__suppress_context__

    def test_what_says_that_it_is_ours(self):
        """Our annotation, and none of cert-manager's, which may have taken the Secret over."""
        secret = WebhookCertificate.generate("hook", "ns").to_secret("tls", "ns")
        secret["metadata"]["resourceVersion"] = "1"
        annotations = secret["metadata"]["annotations"]
        assert read_secret(secret, ()).is_ours
        annotations["cert-manager.io/issuer-name"] = "x"
        assert not read_secret(secret, ()).is_ours
        annotations.clear()
        assert not read_secret(secret, ()).is_ours
        annotations["rws-operator/certificate-stage"] = "halfway"
        assert "'halfway'" in read_secret(secret, ()).fault

    def test_no_repr_shows_the_key(self):
        """Neither the certificate's nor that of what is made of it."""
        certificate = WebhookCertificate.generate("hook", "ns")
        secret = certificate.to_secret("tls", "ns")
        secret["metadata"]["resourceVersion"] = "1"
        pems = Pems.from_secret(secret)
        for value in (certificate, pems, new_pair(certificate), read_secret(secret, ())):
            assert not shows_key(f"{value!r} {value}", certificate)


class TestInspection:
    """What a certificate says."""

    def test_names_the_authority_among_several(self):
        """The one that signed, wherever it stands in ca.crt."""
        certificate = WebhookCertificate.generate("hook", "ns")
        other = WebhookCertificate.generate("hook", "ns")
        for bundle in (other.ca_pem + certificate.ca_pem, certificate.ca_pem + other.ca_pem):
            found = inspect(certificate.cert_pem, certificate.key_pem, bundle)
            assert found.authority == certificate.ca_pem
        assert found.names == set(service_names("hook", "ns"))

    def test_follows_a_chain_to_its_root(self):
        """As an intermediate authority of cert-manager issues: leaf, intermediate | root."""
        root, chain, key = a_chain()
        assert inspect(chain, key, root).authority == authorities(root)[0]
        leaf = authorities(chain)[0]
        with pytest.raises(ConfigurationError, match="did not sign"):
            inspect(leaf, key, root)

    def test_a_bundle_has_no_doubles(self):
        """Each CA once, in order, comments left out."""
        ca = WebhookCertificate.generate("hook", "ns").ca_pem
        assert authorities(f"# comment\n{ca}\n{ca}") == (ca,)

    def test_what_stumps_a_parser_is_told_as_anything_unusable(self):
        """Each parser has errors of its own, and none may end who looks after a certificate."""
        good = WebhookCertificate.generate_for("hook", ["hook.ns.svc"])
        for what, odd in odd_certificates(good).items():
            with pytest.raises(ConfigurationError):
                inspect(odd, good.key_pem, good.ca_pem)
            with contextlib.suppress(ConfigurationError):
                assert not inspect(odd, good.key_pem, None).names, what
            with contextlib.suppress(ConfigurationError):
                assert len(authorities(odd)) == 1, what
            secret = WebhookCertificate(odd, odd, good.key_pem).to_secret("tls", "ns")
            secret["metadata"]["resourceVersion"] = "1"
            del secret["metadata"]["annotations"]
            assert read_secret(secret, ["hook.ns.svc"]).fault, what

    @pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
    def test_a_comment_may_be_in_any_encoding(self, encoding):
        """Tools write a friendly name above a certificate."""
        certificate = WebhookCertificate.generate("hook", "ns")
        secret = certificate.to_secret("tls", "ns")
        for key, pem in (("tls.crt", certificate.cert_pem), ("ca.crt", certificate.ca_pem)):
            commented = f"friendlyName: Zürich\n{pem}".encode(encoding)
            secret["data"][key] = base64.b64encode(commented).decode()
        found = WebhookCertificate.from_secret(secret)
        assert authorities(found.ca_pem) == authorities(certificate.ca_pem)
        ServingTls().use(found)
        config = {"caBundle": secret["data"]["ca.crt"]}
        assert BundleEntry("", config, ("", "")).holds == authorities(certificate.ca_pem)

    def test_wildcards(self):
        """One label, as TLS clients have it."""
        assert covers(["*.ns.svc"], "hook.ns.svc")
        assert covers(["HOOK.ns.svc"], "hook.ns.svc")
        assert not covers(["*.svc"], "hook.ns.svc")


RsaKey = rsa.RSAPrivateKey


def a_chain() -> tuple[str, str, str]:
    """A root, a leaf with the intermediate that signed it, and the leaf's key."""
    now = datetime.datetime.now(datetime.UTC)

    def made(name: str, issuer: str, key: RsaKey, issuer_key: RsaKey, *, is_ca: bool) -> str:
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.DNSName("hook.ns.svc")]), critical=False
            )
            .sign(issuer_key, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
            .decode()
        )

    keys = [rsa.generate_private_key(65537, 2048) for _ in range(3)]
    root = made("root", "root", keys[0], keys[0], is_ca=True)
    middle = made("middle", "root", keys[1], keys[0], is_ca=True)
    leaf = made("leaf", "middle", keys[2], keys[1], is_ca=False)
    key = keys[2].private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return root, leaf + middle, key.decode()


class TestInstall:
    """As files."""

    def test_writes_files_and_sets_the_environment(self, tmp_path, monkeypatch):
        """The key for its owner only, also over an older file that was open to all."""
        for name in ("CERT", "KEY"):
            monkeypatch.setenv(f"RWS_CONFIG_TLS_{name}_FILE", "before")
        folder = tmp_path / "new" / "tls"
        folder.mkdir(parents=True)
        (folder / "tls.key").write_text("old")
        (folder / "tls.key").chmod(0o666)
        certificate = WebhookCertificate.generate("hook", "ns")
        certificate.install(folder)
        assert (folder / "tls.key").read_text() == certificate.key_pem
        assert stat.S_IMODE((folder / "tls.key").stat().st_mode) == 0o600
        assert (folder / "tls.crt").read_text() == certificate.cert_pem
        assert (folder / "ca.crt").read_text() == certificate.ca_pem
        assert os.environ["RWS_CONFIG_TLS_CERT_FILE"] == str(folder / "tls.crt")
        assert os.environ["RWS_CONFIG_TLS_KEY_FILE"] == str(folder / "tls.key")
        assert sorted(os.listdir(folder)) == ["ca.crt", "tls.crt", "tls.key"]


def a_year_long(namespace: str, *, gone: float) -> WebhookCertificate:
    """A certificate of a year, of which a part is over."""
    names = service_names("hook", namespace)
    began = time.time() - gone * YEAR_SECONDS
    return WebhookCertificate(*issue("hook", names, lifetime_seconds=YEAR_SECONDS, now=began))


class TestShared:
    """One certificate for all replicas, on the API server."""

    async def test_of_racing_replicas_one_makes_it(self, cluster, namespace):
        """All have the same, and the Secret holds it."""
        found = await asyncio.gather(
            *(
                WebhookCertificate.shared(cluster.client, namespace.name, "tls", "hook")
                for _ in range(8)
            )
        )
        assert len({each.cert_pem for each in found}) == 1
        secret = await cluster.client.get(kinds.Secret, "tls", namespace.name)
        assert WebhookCertificate.from_secret(secret) == found[0]

    async def test_an_old_one_is_replaced_once_and_what_is_served_stays_trusted(
        self, cluster, namespace
    ):
        """By the first of many that start after two thirds of its life."""
        client, name = cluster.client, f"hook.{namespace.name}.svc"
        old = a_year_long(namespace.name, gone=0.7)
        await client.create(old.to_secret("tls", namespace.name))
        found = await asyncio.gather(
            *(WebhookCertificate.shared(client, namespace.name, "tls", "hook") for _ in range(5))
        )
        assert len(set(found)) == 1
        assert found[0].cert_pem != old.cert_pem
        for each in (old, found[0]):
            handshake_in_memory(each, found[0].ca_pem, name)
        secret = await client.get(kinds.Secret, "tls", namespace.name)
        assert WebhookCertificate.from_secret(secret) == found[0]
        assert read_secret(secret, ()).is_ours

    async def test_before_two_thirds_of_its_life_it_stays(self, cluster, namespace):
        """Nothing is written."""
        young = a_year_long(namespace.name, gone=0.6)
        await cluster.client.create(young.to_secret("tls", namespace.name))
        found = await WebhookCertificate.shared(cluster.client, namespace.name, "tls", "hook")
        assert found == young

    async def test_a_new_one_of_an_hour_stays(self, cluster, namespace):
        """The day by which it is valid before it was made is no part of its life."""
        new = WebhookCertificate.generate("hook", namespace.name, lifetime_seconds=3600)
        await cluster.client.create(new.to_secret("tls", namespace.name))
        found = await WebhookCertificate.shared(cluster.client, namespace.name, "tls", "hook")
        assert found == new

    async def test_an_expired_one_is_replaced_and_trusted_no_longer(self, cluster, namespace):
        """A program that starts again after a year works again."""
        expired = a_year_long(namespace.name, gone=1.1)
        await cluster.client.create(expired.to_secret("tls", namespace.name))
        found = await WebhookCertificate.shared(cluster.client, namespace.name, "tls", "hook")
        handshake_in_memory(found, found.ca_pem, f"hook.{namespace.name}.svc")
        assert authorities(found.ca_pem) == (found.ca_pem,)

    async def test_one_of_anothers_is_never_replaced(self, cluster, namespace):
        """It is used while it is valid; then its maker must be told."""
        site = Site(cluster.client, namespace.name)
        theirs = a_year_long(namespace.name, gone=0.9)
        await site.foreign_secret(theirs)
        found = await WebhookCertificate.shared(cluster.client, namespace.name, SECRET, "hook")
        assert found == theirs
        await site.foreign_secret(a_year_long(namespace.name, gone=1.1))
        with pytest.raises(ConfigurationError, match="has expired: have it renewed"):
            await WebhookCertificate.shared(cluster.client, namespace.name, SECRET, "hook")

    @pytest.mark.parametrize(("gone", "is_left"), [(0.9, True), (1.1, False)])
    async def test_one_in_an_operators_renewal_is_left_to_it(
        self, cluster, namespace, gone, is_left
    ):
        """Unless that comes too late; then nothing of the renewal stays."""
        old = a_year_long(namespace.name, gone=gone)
        wire = old.to_secret("tls", namespace.name)
        wire["metadata"]["annotations"]["rws-operator/certificate-stage"] = "trusting"
        wire["data"]["next.key"] = wire["data"]["tls.key"]
        await cluster.client.create(wire)
        found = await WebhookCertificate.shared(cluster.client, namespace.name, "tls", "hook")
        assert (found == old) is is_left
        secret = await cluster.client.get(kinds.Secret, "tls", namespace.name)
        assert ("next.key" in secret["data"]) is is_left

    async def test_replicas_that_start_at_once_have_it_trusted(self, cluster, namespace):
        """Each writes the same; who comes second finds it done."""
        site = Site(cluster.client, namespace.name)
        try:
            await site.install()
            certificate = WebhookCertificate.generate("hook", namespace.name)
            names = site.name, site.name, site.crd_name
            await asyncio.gather(
                *(certificate.patch_ca_bundle(cluster.client, *names) for _ in range(8))
            )
            assert set((await site.bundles()).values()) == {(certificate.ca_pem,)}
        finally:
            await site.remove()

    async def test_an_unusable_secret_is_told(self, cluster, namespace):
        """It is somebody's, so it is not overwritten."""
        wire = WebhookCertificate.generate("hook", namespace.name).to_secret("tls", namespace.name)
        wire["data"]["tls.key"] = base64.b64encode(b"half").decode()
        await cluster.client.create(wire)
        with pytest.raises(ConfigurationError, match=rf"Secret {namespace.name}/tls: the key"):
            await WebhookCertificate.shared(cluster.client, namespace.name, "tls", "hook")

    async def test_patch_ca_bundle(self, cluster, namespace):
        """Every entry of the named objects, nothing where it is right already."""
        site = Site(cluster.client, namespace.name)
        try:
            for wire in (site.validating(site.entry("more.example.com", None)), site.mutating()):
                await cluster.client.create(wire)
            await cluster.client.create(site.crd())
            certificate = WebhookCertificate.generate("hook", namespace.name)
            names = site.name, site.name, site.crd_name
            await certificate.patch_ca_bundle(cluster.client, *names)
            assert set((await site.bundles()).values()) == {(certificate.ca_pem,)}
            before = [
                (await cluster.client.get(kind, name))["metadata"]["resourceVersion"]
                for kind, name in zip((VALIDATING, MUTATING, CRD), names, strict=True)
            ]
            validating = await cluster.client.get(VALIDATING, site.name)
            assert all(each["clientConfig"]["caBundle"] for each in validating["webhooks"])
            await certificate.patch_ca_bundle(cluster.client, *names)
            after = [
                (await cluster.client.get(kind, name))["metadata"]["resourceVersion"]
                for kind, name in zip((VALIDATING, MUTATING, CRD), names, strict=True)
            ]
            assert after[:2] == before[:2]
            await certificate.patch_ca_bundle(cluster.client)  # nothing named: nothing done
        finally:
            await site.remove()


class TestServingTls:
    """The context that listens."""

    async def test_new_handshakes_see_the_new_one_and_none_fails(self):
        """A loop of connections through many changes, an RSA key among the elliptic ones."""
        serving = ServingTls()
        pairs = [WebhookCertificate.generate("hook", "ns") for _ in range(30)]
        pairs.insert(10, WebhookCertificate(*a_chain()))
        bundle = "".join(pair.ca_pem for pair in pairs)
        serving.use(pairs[0])
        server = await asyncio.start_server(_close, "127.0.0.1", 0, ssl=serving.context)
        port = server.sockets[0].getsockname()[1]
        done = asyncio.Event()
        calls = 0

        async def call_all_the_time() -> None:
            nonlocal calls
            while not done.is_set():
                await handshake(port, bundle, "hook.ns.svc")
                calls += 1

        async with asyncio.TaskGroup() as tasks:
            for _ in range(4):
                tasks.create_task(call_all_the_time())
            for pair in pairs:
                serving.use(pair)
                seen = await handshake(port, bundle, "hook.ns.svc")
                leaf = authorities(pair.cert_pem)[0]
                assert seen.getpeercert(True) == ssl.PEM_cert_to_DER_cert(leaf)
                await asyncio.sleep(0.02)
            done.set()
        assert calls > len(pairs)
        server.close()

    async def test_an_open_connection_goes_on(self):
        """What began with the old certificate is not disturbed by a new one."""

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                writer.write(line)
                await writer.drain()
            writer.close()

        serving = ServingTls()
        old, new = (WebhookCertificate.generate("hook", "ns") for _ in range(2))
        serving.use(old)
        server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=serving.context)
        context = ssl.create_default_context(cadata=old.ca_pem)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            server.sockets[0].getsockname()[1],
            ssl=context,
            server_hostname="hook.ns.svc",
        )
        for number in range(3):
            serving.use(new)
            writer.write(b"%d\n" % number)
            assert await reader.readline() == b"%d\n" % number
        writer.close()
        server.close()

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    async def test_versions_and_protocols(self, version):
        """TLS 1.2 and 1.3, http/1.1 offered, also to a client that calls an address."""
        serving = ServingTls()
        pair = WebhookCertificate.generate_for("me", ["127.0.0.1"])
        serving.use(pair)
        server = await asyncio.start_server(_close, "127.0.0.1", 0, ssl=serving.context)
        context = ssl.create_default_context(cadata=pair.ca_pem)
        context.minimum_version = context.maximum_version = version
        context.set_alpn_protocols(["h2", "http/1.1"])
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        writer.close()
        server.close()

    async def test_a_refused_certificate_changes_nothing(self):
        """Neither what is served nor when it expires; the message names no key."""
        serving = ServingTls()
        good, other = (WebhookCertificate.generate("hook", "ns") for _ in range(2))
        assert serving.certificate is None
        serving.use(good)
        expires_at = serving.expires_at
        wrong = WebhookCertificate(good.ca_pem, good.cert_pem, other.key_pem)
        with pytest.raises(ConfigurationError) as caught:
            serving.use(wrong)
        assert not shows_key(repr(caught.value), good, other)
        assert serving.certificate is good
        assert serving.expires_at == expires_at

    def test_what_openssl_refuses_is_told_in_its_words(self):
        """And without the key, or the paths it was read by."""
        good, other = (WebhookCertificate.generate("hook", "ns") for _ in range(2))
        wrong = WebhookCertificate(good.ca_pem, good.cert_pem, other.key_pem)
        with pytest.raises(ConfigurationError, match="KEY_VALUES_MISMATCH") as caught:
            serving_tls._context_of(wrong)
        assert not shows_key(repr(caught.value), good, other)
        assert "/proc" not in str(caught.value)

    async def test_without_a_certificate_a_handshake_fails_and_the_server_stays(self):
        """Who calls too early is refused; later calls are answered."""
        serving = ServingTls()
        server = await asyncio.start_server(_close, "127.0.0.1", 0, ssl=serving.context)
        port = server.sockets[0].getsockname()[1]
        pair = WebhookCertificate.generate("hook", "ns")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await handshake(port, pair.ca_pem, "hook.ns.svc")
        serving.use(pair)
        await handshake(port, pair.ca_pem, "hook.ns.svc")
        server.close()

    @pytest.mark.parametrize("in_memory", [True, False])
    def test_no_file_is_left_behind(self, in_memory, tmp_path, monkeypatch):
        """In memory where the system can; else a file for its owner only, while it is read."""
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        if not in_memory:
            monkeypatch.delattr(os, "memfd_create")
        modes: list[int] = []
        real = ssl.SSLContext.load_cert_chain

        def spy(self, path, **rest):
            modes.extend(stat.S_IMODE(f.stat().st_mode) for f in tmp_path.iterdir())
            return real(self, path, **rest)

        monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
        open_files = len(os.listdir("/proc/self/fd"))
        serving = serving_tls.ServingTls()
        serving.use(WebhookCertificate.generate("hook", "ns"))
        assert modes == ([] if in_memory else [0o600])
        assert not list(tmp_path.iterdir())
        assert len(os.listdir("/proc/self/fd")) == open_files


async def _close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
