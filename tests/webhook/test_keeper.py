"""Keepers on the API server: first creation, renewal, and all that may befall Secret and caBundle.

Stages last a second or less here, so that a renewal takes a few.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from rws_operator.errors import Conflict
from rws_operator.resources import kinds
from rws_operator.testing.eventually import eventually
from rws_operator.webhook.certificate import WebhookCertificate
from rws_operator.webhook.certificate_secret import new_pair, read_secret, secret_patch
from rws_operator.webhook.certificate_terms import YEAR_SECONDS, service_names
from rws_operator.webhook.pems import STAGE_ANNOTATION
from tests.webhook.account import Account
from tests.webhook.issuer import Issuer, odd_certificates
from tests.webhook.keeper_kit import (
    CRD,
    MUTATING,
    SECRET,
    SERVICE,
    VALIDATING,
    Replica,
    Site,
    a_keeper,
    encode,
    running,
    shows_key,
    start,
)
from tests.webhook.kit import Kubectl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rws_operator.testing.cluster import TestCluster, TestNamespace

SOON = 4.0  # two seconds until a caBundle is put back, and two for a busy machine
BUSY = 20.0  # the machine may be
ODD = odd_certificates(WebhookCertificate.generate_for("hook", ["hook.ns.svc"]))


@pytest_asyncio.fixture
async def site(cluster: TestCluster, namespace: TestNamespace) -> AsyncIterator[Site]:
    """Webhook configurations and a CRD of the test's own."""
    made = Site(cluster.client, namespace.name)
    await made.install()
    yield made
    await made.remove()


async def wait_trusted(site: Site, *cas: str, seconds: float = BUSY) -> None:
    """Wait until every caBundle holds exactly these CAs."""

    async def trusted() -> bool:
        return all(set(held) == set(cas) for held in (await site.bundles()).values())

    await eventually(seconds, trusted, 0.05)


class TestFirst:
    """The first start of several replicas."""

    @pytest.mark.behaviour("B22")
    async def test_racing_keepers_serve_one_certificate(self, site):
        """One Secret is made, all serve it, and everything trusts it; all are ready."""
        async with running(*(a_keeper(site) for _ in range(5))) as replicas:
            assert len({each.serving.certificate for each in replicas}) == 1
            secret = await site.secret()
            assert secret["type"] == "kubernetes.io/tls"
            certificate = WebhookCertificate.from_secret(secret)
            assert certificate == replicas[0].serving.certificate
            await wait_trusted(site, certificate.ca_pem)
            await eventually(BUSY, lambda: not any(each.keeper.check() for each in replicas))

    async def test_nothing_is_trusted_before_somebody_listens(self, site):
        """A caBundle says that somebody can be called; readiness waits for the first."""
        replica = await start(a_keeper(site), listening=False)
        await eventually(BUSY, lambda: replica.serving.certificate)
        await asyncio.sleep(0.5)
        assert not any((await site.bundles()).values())
        reason = ("by any caBundle", "validate.things.example.com", "mutate.things", site.crd_name)
        assert has(replica.keeper.check(), *reason)
        certificate = WebhookCertificate.from_secret(await site.secret())
        await certificate.patch_ca_bundle(site.client, validating=site.name)
        await eventually(BUSY, lambda: replica.keeper.check() is None)
        assert has(told(replica), "mutate.things.example.com", site.crd_name)
        assert not has(told(replica), "validate.things")
        replica.listening.set()
        await wait_trusted(site, replica.ca)
        await eventually(BUSY, lambda: not told(replica))
        await replica.stop()

    async def test_one_that_may_not_be_written_holds_nothing_up(self, site):
        """Say by our own webhook of CRDs, which is called only once we are ready: it is a note."""
        guard = await site.guard_crd()
        try:
            async with running(a_keeper(site)) as [replica]:
                await eventually(BUSY, lambda: replica.keeper.check() is None)
                missing = f"not trusted by the caBundle of {CRD.resource}/{site.crd_name}"
                await eventually(BUSY, lambda: has(told(replica), missing, 'webhook "guard.'))
                assert not has(told(replica), "not trusted by the caBundle of validating")
                await site.client.delete(VALIDATING, guard)
                await wait_trusted(site, replica.ca)
                await eventually(BUSY, lambda: not told(replica))
        finally:
            await site.unguard_crd()

    async def test_what_was_installed_for_another_service_is_told(self, site, caplog):
        """A wrong namespace here or there: all seems well, and nobody is called."""
        keeper = a_keeper(site, service=(SERVICE, "elsewhere"))
        async with running(keeper) as [replica]:
            await eventually(BUSY, lambda: replica.keeper.check() is None)
            for name in (f"{VALIDATING.resource}/{site.name}", site.crd_name):
                theirs = f"calls Service {site.namespace}/{SERVICE}, not ours (elsewhere/{SERVICE})"
                assert has(told(replica), name, theirs, "POD_NAMESPACE")
            await site.set_bundle(VALIDATING, None)  # wakes it
            await asyncio.sleep(1)
            assert not any((await site.bundles()).values())
        hints = [each for each in caplog.records if "look at this" in each.message]
        assert len(hints) == 3  # one of each object, once

    @pytest.mark.behaviour("S18")
    async def test_settled_keepers_write_nothing(self, site):
        """Neither running on nor after a restart."""
        async with running(a_keeper(site), a_keeper(site)) as replicas:
            await wait_trusted(site, replicas[0].ca)
            await eventually(BUSY, lambda: not any(each.keeper.check() for each in replicas))
            before = await versions(site)
            async with running(a_keeper(site)) as [another]:
                await eventually(BUSY, lambda: another.keeper.check() is None)
                await asyncio.sleep(1)
            assert await versions(site) == before

    async def test_objects_that_do_not_exist_yet_hold_nothing_up(self, cluster, namespace):
        """The configurations are applied after the workload; they are trusted as they come."""
        site = Site(cluster.client, namespace.name)
        try:
            async with running(a_keeper(site)) as [replica]:
                await eventually(BUSY, lambda: replica.keeper.check() is None)
                await asyncio.sleep(1)  # the watches are open
                await site.client.create(site.validating())
                await wait_trusted(site, replica.ca, seconds=SOON)
        finally:
            await site.remove()


async def versions(site: Site) -> list[str]:
    """Resource versions of the Secret and the configurations."""
    secret = await site.secret()
    found = [secret, *[await site.client.get(kind, site.name) for kind in (VALIDATING, MUTATING)]]
    return [each["metadata"]["resourceVersion"] for each in found]


class Watchdog:
    """Samples all the time whether each caBundle trusts what each replica serves."""

    def __init__(self, site: Site, replicas: list[Replica]) -> None:
        self.site = site
        self.replicas = replicas
        self.stages: list[str] = []
        self.served: list[tuple[str, ...]] = []
        self.samples = 0

    async def run(self) -> None:
        """Sample until cancelled; raise at the first that fails."""
        while True:
            metadata = (await self.site.secret())["metadata"]
            stage = metadata["annotations"].get("rws-operator/certificate-stage", "not ours")
            if stage not in self.stages[-1:]:
                self.stages.append(stage)
            # What is served while the caBundles are read must be trusted before and after.
            before = {each.ca for each in self.replicas}
            bundles = await self.site.bundles()
            for name, held in bundles.items():
                assert before <= set(held), f"{name} does not trust what is served in {stage}"
            now = tuple(each.ca for each in self.replicas)
            if now not in self.served[-1:]:
                self.served.append(now)
            self.samples += 1
            await asyncio.sleep(0.02)


class TestRenewal:
    """Through all stages, with more than one replica."""

    async def test_at_each_moment_what_is_served_is_trusted(self, site):
        """Two replicas, one renewal by the clock; afterwards only the new CA is trusted."""
        async with running(*(a_keeper(site, lifetime=18, stage=1) for _ in range(2))) as replicas:
            old = replicas[0].ca
            await wait_trusted(site, old)
            watchdog = Watchdog(site, replicas)
            task = asyncio.create_task(watchdog.run())
            await eventually(60, lambda: task.done() or watchdog.stages[-3:] == list(CYCLE))
            new = replicas[0].ca
            assert {each.ca for each in replicas} == {new}
            assert new != old
            await wait_trusted(site, new)
            assert not task.done() or task.result()
            task.cancel()
            assert watchdog.samples > 50
            await eventually(BUSY, lambda: not any(each.keeper.check() for each in replicas))
            assert set((await site.secret())["data"]) == {"tls.crt", "tls.key", "ca.crt"}

    @pytest.mark.parametrize("stage", ["trusting", "retiring"])
    async def test_another_goes_on_where_one_dies(self, site, stage):
        """Killed in the middle of a stage; a new replica and one that was there finish it."""
        clock = Clock()
        first = await start(a_keeper(site, lifetime=900, stage=0.7, wall_clock=clock))
        await eventually(BUSY, lambda: first.keeper.check() is None)
        old = first.ca
        clock.offset = 700

        async def reached() -> bool:
            return bool(await site.stage() == stage)

        await eventually(BUSY, reached, 0.05)
        await first.stop()
        keepers = [a_keeper(site, lifetime=900, stage=0.7, wall_clock=clock) for _ in range(2)]
        async with running(*keepers) as replicas:

            async def settled() -> bool:
                return bool(await site.stage() == "serving")

            await eventually(BUSY, settled)
            await eventually(BUSY, lambda: len({each.ca for each in replicas}) == 1)
            assert replicas[0].ca != old
            await wait_trusted(site, replicas[0].ca)

    async def test_other_names_bring_a_new_certificate(self, site, caplog):
        """At once, where the program is called by another name from now on; the log says why."""
        await site.client.create(
            WebhookCertificate.generate("other", site.namespace).to_secret(SECRET, site.namespace)
        )
        before = (await site.secret())["data"]
        caplog.set_level(logging.INFO)
        async with running(a_keeper(site, stage=60)) as [replica]:
            assert (await site.secret())["data"] != before
            await wait_trusted_by(site, replica.ca)
            await eventually(BUSY, lambda: replica.keeper.check() is None)
        [why] = [
            getattr(each, "because", "") for each in caplog.records if "wrote the cert" in each.msg
        ]
        assert f"not for {SERVICE}, " in why
        made = new_pair(WebhookCertificate.from_secret(await site.secret()))
        wanted = {*service_names(SERVICE, site.namespace), *service_names("other", site.namespace)}
        assert made.names == wanted  # or a replica that asks for the other ones would undo it

    async def test_a_name_of_others_that_none_of_ours_can_have_is_left_out(self, site):
        """Some tool put it into the certificate that is replaced."""
        keeper = a_keeper(site)
        made = keeper._issue(frozenset({"odd_one.example.com", "UPPER.example.com", "10.0.0.1"}))
        assert made.names == {*service_names(SERVICE, site.namespace), "10.0.0.1"}

    @pytest.mark.parametrize("seconds", [-600.0, 600.0])
    async def test_a_clock_that_is_off(self, site, seconds):
        """Ten minutes before or behind the API server: what is made is valid there, and here."""
        skewed = a_keeper(site, wall_clock=Clock(seconds))
        async with running(skewed, a_keeper(site)) as replicas:
            await wait_trusted(site, replicas[0].ca)
            await eventually(BUSY, lambda: not any(each.keeper.check() for each in replicas))
            secret = await site.secret()
            await asyncio.sleep(1)
            assert await site.secret() == secret  # and neither finds fault with it


CYCLE = ("trusting", "retiring", "serving")


class Clock:
    """The wall clock, off by some seconds."""

    def __init__(self, offset: float = 0.0) -> None:
        self.offset = offset

    def __call__(self) -> float:
        """Seconds since the epoch."""
        return time.time() + self.offset


class TestSecret:
    """What may become of the Secret."""

    async def test_of_two_writers_one_is_refused(self, site):
        """A stage is written over the version that it was decided on, or not at all."""
        certificate = WebhookCertificate.generate(SERVICE, site.namespace)
        created = await site.client.create(certificate.to_secret(SECRET, site.namespace))
        content = read_secret(created, ()).content
        assert content is not None
        patch = secret_patch(content, created["metadata"]["resourceVersion"])
        await site.write_secret(tls_crt="changed meanwhile")
        with pytest.raises(Conflict):
            await site.client.patch(kinds.Secret, SECRET, site.namespace, patch=patch)

    async def test_deleted_the_same_content_comes_back(self, site):
        """No other certificate, with replicas that race for it and one that holds nothing."""
        async with running(a_keeper(site), a_keeper(site)) as replicas:
            await eventually(BUSY, lambda: not any(each.keeper.check() for each in replicas))
            before = (await site.secret())["data"]
            await site.client.delete(kinds.Secret, SECRET, site.namespace)
            async with running(a_keeper(site)) as [fresh]:
                assert fresh.serving.certificate == replicas[0].serving.certificate
            assert (await site.secret())["data"] == before

    async def test_deleted_without_a_holder_a_new_one_is_made(self, site):
        """And it is trusted, also where the caBundles hold what was before."""
        async with running(a_keeper(site)) as [first]:
            await wait_trusted(site, first.ca)
            old = first.ca
        await site.client.delete(kinds.Secret, SECRET, site.namespace)
        async with running(a_keeper(site, stage=0.3)) as [second]:
            assert second.ca != old
            await wait_trusted(site, second.ca)

    @pytest.mark.parametrize(
        "data",
        [
            {"tls_key": "-----BEGIN PRIVATE KEY-----\nhalf"},
            {"tls_key": WebhookCertificate.generate("hook", "ns").key_pem},
            {"tls_crt": "no PEM"},
            {"ca_crt": ""},
            {"ca_crt": WebhookCertificate.generate("hook", "ns").ca_pem},
            {"tls_crt": ODD["version 4"]},
            {"tls_crt": ODD["curve"]},
        ],
    )
    async def test_damaged_it_is_written_back(self, site, data):
        """Half a key, a stranger's key, no PEM, no CA, a stranger's CA, what stumps a parser."""
        async with running(a_keeper(site)) as [replica]:
            await eventually(BUSY, lambda: replica.keeper.check() is None)
            before = (await site.secret())["data"]
            served = replica.serving.certificate
            await site.write_secret(**data)

            async def restored() -> bool:
                return bool((await site.secret())["data"] == before)

            await eventually(BUSY, restored)
            assert replica.serving.certificate is served
            assert replica.keeper.check() is None

    async def test_damaged_without_a_holder_it_is_made_anew(self, site):
        """A replica that starts repairs what is ours."""
        wire = WebhookCertificate.generate(SERVICE, site.namespace).to_secret(
            SECRET, site.namespace
        )
        wire["data"]["tls.key"] = encode("half")
        await site.client.create(wire)
        async with running(a_keeper(site)) as [replica]:
            assert WebhookCertificate.from_secret(await site.secret()) == (
                replica.serving.certificate
            )

    async def test_expired_it_is_made_anew(self, site):
        """By all replicas that served it; readiness says so meanwhile."""
        clock = Clock()
        keepers = [a_keeper(site, wall_clock=clock) for _ in range(2)]
        async with running(*keepers) as replicas:
            await eventually(BUSY, lambda: not any(each.keeper.check() for each in replicas))
            old = replicas[0].ca
            clock.offset = 3700
            assert "has expired" in (replicas[0].keeper.check() or "")
            await site.set_bundle(VALIDATING, None)  # wakes them
            await eventually(BUSY, lambda: not any(each.keeper.check() for each in replicas))
            assert {each.ca for each in replicas} != {old}
            await wait_trusted_by(site, replicas[0].ca)

    async def test_of_cert_manager_it_is_served_and_never_written(self, site):
        """With another CA it is served only after that was trusted; with the same one at once."""
        first, second = Issuer(), Issuer()
        await site.foreign_secret(first.issue(SERVICE, site.namespace))
        async with running(a_keeper(site), a_keeper(site)) as replicas:
            await wait_trusted(site, first.ca_pem)
            renewed = first.issue(SERVICE, site.namespace)
            await site.write_secret(tls_crt=renewed.cert_pem, tls_key=renewed.key_pem)
            await eventually(
                BUSY,
                lambda: all(serves(each, renewed) for each in replicas),
            )
            watchdog = Watchdog(site, replicas)
            task = asyncio.create_task(watchdog.run())
            other = second.issue(SERVICE, site.namespace)
            await site.write_secret(
                tls_crt=other.cert_pem, tls_key=other.key_pem, ca_crt=other.ca_pem
            )
            written = await site.secret()
            await eventually(BUSY, lambda: all(serves(each, other) for each in replicas))
            await wait_trusted(site, second.ca_pem)
            assert not task.done(), task
            task.cancel()
            assert await site.secret() == written

    @pytest.mark.parametrize(
        ("fault", "reason"),
        [
            ("half", "the key is no PEM"),
            ("expired", ""),
            ("other names", "is not for hook."),
            ("no CA", "ca.crt is missing"),
        ],
    )
    async def test_of_another_and_unusable_the_old_stays(self, site, fault, reason):
        """It is not ours to mend; the problem is named, and webhooks are served."""
        async with running(a_keeper(site)) as [replica]:
            await eventually(BUSY, lambda: replica.keeper.check() is None)
            served = replica.serving.certificate
            theirs = WebhookCertificate.generate(
                "other" if fault == "other names" else SERVICE,
                site.namespace,
                lifetime_seconds=-60 if fault == "expired" else 3600,
            )
            half = theirs.key_pem[:80] if fault == "half" else theirs.key_pem
            theirs = WebhookCertificate(theirs.ca_pem, theirs.cert_pem, half)
            if fault == "no CA":
                theirs = WebhookCertificate("", theirs.cert_pem, theirs.key_pem)
            await site.foreign_secret(theirs)
            written = await site.secret()
            if reason:
                await eventually(BUSY, lambda: has(told(replica), f"{SECRET}: ", reason))
            await asyncio.sleep(1)
            assert replica.serving.certificate is served
            assert replica.keeper.check() is None
            assert await site.secret() == written
            assert not shows_key(told(replica), theirs)

    async def test_of_another_and_old_it_is_told(self, site):
        """Nobody may know that it is theirs to renew: somebody lost our annotation, say."""
        clock = Clock()
        await site.foreign_secret(WebhookCertificate.generate(SERVICE, site.namespace))
        async with running(a_keeper(site, wall_clock=clock)) as [replica]:
            await eventually(BUSY, lambda: replica.keeper.check() is None)
            assert not told(replica)
            clock.offset = 0.8 * YEAR_SECONDS
            await site.set_bundle(VALIDATING, None)  # wakes it
            await eventually(BUSY, lambda: has(told(replica), "expires at", "another's to renew"))
            assert replica.keeper.check() is None
            annotation = {STAGE_ANNOTATION: "serving", "cert-manager.io/certificate-name": None}
            patch = {"metadata": {"annotations": annotation}}
            await site.client.patch(kinds.Secret, SECRET, site.namespace, patch=patch)
            await eventually(BUSY, lambda: not told(replica))

    async def test_of_another_and_not_valid_yet_it_waits(self, site):
        """Not served, as every call would fail; the problem says so."""
        clock = Clock(-3 * 86400)
        await site.foreign_secret(WebhookCertificate.generate(SERVICE, site.namespace))
        replica = await start(a_keeper(site, wall_clock=clock))
        await eventually(BUSY, lambda: has(replica.keeper.check(), "not valid yet"))
        assert replica.serving.certificate is None
        clock.offset = 0
        await eventually(BUSY, lambda: replica.keeper.check() is None)
        await replica.stop()

    async def test_of_another_and_gone_its_maker_is_waited_for(self, site):
        """What is served stays; the problem says how to have one of ours instead."""
        await site.foreign_secret(WebhookCertificate.generate(SERVICE, site.namespace))
        async with running(a_keeper(site)) as [replica]:
            await eventually(BUSY, lambda: replica.keeper.check() is None)
            await site.client.delete(kinds.Secret, SECRET, site.namespace)
            await eventually(BUSY, lambda: has(told(replica), "gone", "restart"))
            assert replica.keeper.check() is None
        async with running(a_keeper(site)) as [replica]:
            await eventually(BUSY, lambda: not told(replica))

    async def test_of_another_and_unusable_from_the_start(self, site):
        """Nothing can be served; readiness says why, and it heals."""
        good = WebhookCertificate.generate(SERVICE, site.namespace)
        await site.foreign_secret(WebhookCertificate(good.ca_pem, good.cert_pem, "nothing"))
        keeper = a_keeper(site)
        replica = await start(keeper)
        await eventually(BUSY, lambda: "the key is no PEM" in (keeper.check() or ""))
        await site.write_secret(tls_key=good.key_pem)
        await eventually(BUSY, lambda: keeper.check() is None)
        await replica.stop()


def told(replica: Replica) -> str:
    """What /readyz?verbose shows of a replica."""
    return "; ".join(replica.keeper.notes())


def serves(replica: Replica, certificate: WebhookCertificate) -> bool:
    """Whether a replica serves this."""
    served = replica.serving.certificate
    return served is not None and served.cert_pem == certificate.cert_pem


async def wait_trusted_by(site: Site, ca: str, seconds: float = BUSY) -> None:
    """Wait until every caBundle holds a CA, whatever else it holds."""

    async def trusted() -> bool:
        return all(ca in held for held in (await site.bundles()).values())

    await eventually(seconds, trusted, 0.05)


class TestBundle:
    """What may become of the caBundles."""

    @pytest.mark.parametrize("kind", [VALIDATING, MUTATING, CRD], ids=lambda kind: kind.plural)
    async def test_blanked_it_is_put_back(self, site, kind):
        """Within two seconds, and with what it held; the watch tells, no timer."""
        async with running(a_keeper(site, stage=60), a_keeper(site, stage=60)) as replicas:
            await eventually(BUSY, lambda: not any(each.keeper.check() for each in replicas))
            await asyncio.sleep(0.5)  # the watches are open
            await site.set_bundle(kind, None)
            await wait_trusted(site, replicas[0].ca, seconds=SOON)
            assert replicas[0].keeper.check() is None

    @pytest.mark.parametrize("kind", [VALIDATING, MUTATING], ids=lambda kind: kind.plural)
    async def test_of_what_no_parser_reads_it_is_put_back(self, site, kind):
        """A certificate of a version that there is not, say; nor does it end the keeper."""
        async with running(a_keeper(site, stage=60)) as [replica]:
            await eventually(BUSY, lambda: replica.keeper.check() is None)
            await asyncio.sleep(0.5)
            await site.set_bundle(kind, ODD["version 4"])
            await wait_trusted(site, replica.ca, seconds=SOON)
            assert replica.keeper.check() is None

    async def test_a_foreign_ca_goes_in_time(self, site):
        """Ours stands beside it at once; it may be another replica's, so it goes after a while."""
        foreign = WebhookCertificate.generate("x", "y").ca_pem
        async with running(a_keeper(site, stage=1)) as [replica]:
            await eventually(BUSY, lambda: replica.keeper.check() is None)
            await asyncio.sleep(0.5)
            await site.set_bundle(MUTATING, foreign)
            await wait_trusted_by(site, replica.ca, seconds=SOON)
            assert foreign in (await site.bundles())["mutate.things.example.com"]
            await wait_trusted(site, replica.ca)

    async def test_a_configuration_that_is_made_again(self, site):
        """Deleted and applied anew, as by a deploy."""
        async with running(a_keeper(site, stage=60)) as [replica]:
            await eventually(BUSY, lambda: replica.keeper.check() is None)
            await asyncio.sleep(0.5)
            await site.client.delete(VALIDATING, site.name)
            await site.client.create(site.validating())
            await wait_trusted(site, replica.ca, seconds=SOON)

    async def test_a_fight_about_one_slows_down(self, site):
        """Who undoes each write is answered ever later; other caBundles are mended as quickly."""
        undone = 0

        async def undo() -> None:
            nonlocal undone
            while True:
                if (await site.bundles())["validate.things.example.com"]:
                    with contextlib.suppress(Conflict):
                        await site.set_bundle(VALIDATING, None)
                        undone += 1
                await asyncio.sleep(0.01)

        async with running(a_keeper(site, stage=60)) as [replica]:
            await wait_trusted(site, replica.ca)
            await asyncio.sleep(0.5)
            opponent = asyncio.create_task(undo())
            await asyncio.sleep(4)
            assert 3 <= undone <= 8
            await site.set_bundle(MUTATING, None)
            await eventually(SOON, lambda: _holds(site, "mutate.things.example.com"), 0.05)
            assert replica.keeper.check() is None
            opponent.cancel()
            await wait_trusted(site, replica.ca, seconds=5 + SOON)

    @pytest.mark.parametrize("server_side", [True, False])
    async def test_applied_again_it_is_kept(self, site, server_side, cluster):
        """An apply by kubectl of manifests without caBundle leaves it as it is."""
        await site.remove()
        manifests = [site.validating(), site.mutating(), site.crd()]
        how = ["apply", "-f", "-", *(["--server-side"] if server_side else [])]
        kubectl = Kubectl(cluster.kubeconfig)
        await kubectl.run(*how, stdin=as_list(manifests))
        async with running(a_keeper(site)) as [replica]:
            await wait_trusted(site, replica.ca)
            ca = replica.ca
        for manifest in manifests:
            manifest["metadata"]["labels"] = {"changed": "yes"}
        await kubectl.run(*how, stdin=as_list(manifests))  # nobody is there to mend it
        assert set((await site.bundles()).values()) == {(ca,)}
        validating = await site.client.get(VALIDATING, site.name)
        assert validating["metadata"]["labels"] == {"changed": "yes"}

    async def test_entries_of_others_are_not_touched(self, cluster, namespace):
        """Another's entry beside ours, ours that calls another Service, a CRD without webhook."""
        site = Site(cluster.client, namespace.name)
        other_name = site.entry("other.example.com")
        other_service = {
            **site.entry("validate.things.example.com"),
            "clientConfig": {"service": {"name": "another", "namespace": site.namespace}},
        }
        by_url = site.entry("mutate.things.example.com", None)
        mutating = site.mutating()
        mutating["webhooks"] = [by_url]
        try:
            await cluster.client.create(site.validating(other_name))
            await cluster.client.create(mutating)
            await cluster.client.create(site.crd(converted=False))
            crd_before = (await cluster.client.get(CRD, site.crd_name))["spec"]
            async with running(a_keeper(site)) as [replica]:
                await wait_trusted_by(site, replica.ca)
                found = await cluster.client.get(VALIDATING, site.name)
                assert [
                    bool(each["clientConfig"].get("caBundle")) for each in found["webhooks"]
                ] == [
                    False,
                    True,
                ]
                moved = {**found, "webhooks": [found["webhooks"][0], other_service]}
                await cluster.client.replace(moved)
                await asyncio.sleep(1.5)
                after = await cluster.client.get(VALIDATING, site.name)
                assert "caBundle" not in after["webhooks"][1]["clientConfig"]
                assert (await cluster.client.get(CRD, site.crd_name))["spec"] == crd_before
        finally:
            await site.remove()


async def _holds(site: Site, name: str) -> bool:
    return bool((await site.bundles())[name])


def as_list(manifests: list[dict[str, Any]]) -> str:
    """One document for kubectl."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})


class TestFaults:
    """What nobody thought of."""

    async def test_no_error_ends_the_loop(self, site, caplog, monkeypatch):
        """Its place is told, and not its text, which may hold anything; then all goes on."""
        secret = "PRIVATE KEY"

        def fail(*_: object) -> None:
            raise KeyError(secret)

        with monkeypatch.context() as broken:
            broken.setattr("rws_operator.webhook.rotation.Rotation.decide", fail)
            replica = await start(a_keeper(site))
            await eventually(BUSY, lambda: has(told(replica), "unexpected KeyError in fail"))
            await eventually(BUSY, lambda: "keeps trying" in caplog.text)
        await eventually(BUSY, lambda: replica.keeper.check() is None)
        with monkeypatch.context() as broken:
            broken.setattr("rws_operator.webhook.rotation.Rotation.decide", fail)
            await site.set_bundle(VALIDATING, None)  # wakes it
            await eventually(BUSY, lambda: has(told(replica), "unexpected KeyError in fail"))
            assert replica.keeper.check() is None
        await wait_trusted(site, replica.ca)
        assert secret not in f"{caplog.text}{[vars(each) for each in caplog.records]}"
        await replica.stop()


class TestPermissions:
    """A ServiceAccount that lacks something."""

    async def test_what_is_missing_is_named_and_heals_when_granted(self, site, control_plane):
        """First nothing is granted, then the Secret, then the caBundles."""
        account = await Account.create(site.client, control_plane, site.namespace)
        keeper = a_keeper(site, client=account.client)
        replica = await start(keeper)
        try:
            await eventually(BUSY, lambda: has(keeper.check(), "get", '"secrets"'))
            await account.grant_secret(SECRET)
            await eventually(BUSY, lambda: replica.serving.certificate)
            resource = '"validatingwebhookconfigurations"'
            await eventually(BUSY, lambda: has(keeper.check(), "cannot get", resource))
            await account.grant_bundles(site, verbs=("get", "list", "watch"))
            await eventually(BUSY, lambda: has(keeper.check(), "cannot patch", resource))
            await account.grant_bundles(site)
            await wait_trusted(site, replica.ca)
            await eventually(BUSY, lambda: keeper.check() is None)
        finally:
            await replica.stop()
            await account.remove()


def has(text: str | None, *parts: str) -> bool:
    """Whether a text holds all parts."""
    return text is not None and all(part in text for part in parts)


class TestSilence:
    """The key is nowhere but in the Secret and in the memory of the process."""

    async def test_no_log_record_shows_the_key(self, site, caplog):
        """Each failure path in turn, with all that is logged at any level."""
        caplog.set_level(logging.DEBUG)
        stranger = WebhookCertificate.generate(SERVICE, site.namespace)
        seen: list[WebhookCertificate] = [stranger]
        problems: list[str] = []
        keeper = a_keeper(site, lifetime=12, stage=0.5)
        async with running(keeper) as [replica]:
            for data in (
                {"tls_key": stranger.key_pem},
                {"tls_crt": stranger.key_pem},
                {"ca_crt": stranger.key_pem},
                {"tls_key": stranger.key_pem[:90]},
                {"tls_key": "x" + stranger.key_pem.replace("BEGIN", "BEGUN")},
            ):
                await site.write_secret(**data)
                await asyncio.sleep(0.4)
                problems.append(f"{keeper.notes()} {keeper.check()} {keeper!r} {replica.serving!r}")
                assert replica.serving.certificate is not None
                seen.append(replica.serving.certificate)
            await site.foreign_secret(
                WebhookCertificate(stranger.ca_pem, stranger.key_pem, stranger.key_pem)
            )
            await eventually(BUSY, lambda: keeper.notes())
            problems.append(f"{keeper.notes()} {keeper.check()}")
            await eventually(
                BUSY, lambda: any("keeps trying" in each.message for each in caplog.records)
            )
        shown = [f"{record.getMessage()} {record.__dict__!r}" for record in caplog.records]
        assert len(shown) > 10
        for text in (*shown, *problems, caplog.text):
            assert not shows_key(text, *seen), text
