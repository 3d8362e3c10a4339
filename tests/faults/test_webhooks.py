"""A certificate that others replace, and a conversion that is dead, on a real API server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import yaml

from rws_operator import WebhookCertificate
from rws_operator.errors import NotFound
from rws_operator.resources import kinds
from rws_operator.testing import eventually
from rws_operator.webhook.pems import STAGE_ANNOTATION
from tests.flow.test_webhook_life import LOAD_SECONDS, Install, Vaults, install
from tests.test_uninstall import Subject, is_unreadable, stored_as_old, subject

if TYPE_CHECKING:
    from rws_operator.testing import TestCluster

__all__ = ["install", "subject"]

pytestmark = pytest.mark.timeout(180 + 3 * LOAD_SECONDS)
GONE_SECONDS = 60


async def hand_over(made: Vaults, certificate: WebhookCertificate) -> None:
    """Replace the Secret, as cert-manager does: data, annotations and all."""
    installation = made.installation
    secret = certificate.to_secret(made.secret_name, installation.namespace)
    secret["metadata"]["annotations"] = {"cert-manager.io/certificate-name": "hook"}
    await made.cluster.client.request("PUT", made.secret_path, body=secret)


@pytest.mark.behaviour("B22")
async def test_a_certificate_that_another_replaces_is_trusted_before_it_is_served(
    install: Install,
) -> None:
    """Ours by another's, and that by its successor: both replicas follow, and no call fails."""
    async with install("a", "b", TEST_CLOSE="1", TEST_STAGE="1.5") as made:
        installation = made.installation

        async def replacement() -> None:
            certificate = WebhookCertificate.generate(installation.name, installation.namespace)
            await hand_over(made, certificate)

            async def is_through() -> bool:
                assert await made.served() == {certificate.cert_pem}
                assert {each.strip() for each in await made.ca_bundles()} == {
                    certificate.ca_pem.strip()
                }
                return True

            await eventually(60, is_through, every=0.2)
            secret = await made.read(made.secret_path)
            assert STAGE_ANNOTATION not in secret["metadata"]["annotations"]

        tally = await made.under_load(replacement)
        assert tally.failures == []


@pytest.mark.behaviour("B23")
async def test_a_definition_that_is_replaced_gets_its_ca_bundle_back(install: Install) -> None:
    """`kubectl replace` with what was printed takes it out; the conversion answers again soon."""
    async with install("a", "b") as made:
        await made.wait_until_called()
        before = await made.ca_bundles()
        documents = made.installation.documents
        definition = next(d for d in documents if d["kind"] == "CustomResourceDefinition")
        held = (await made.read(made.crd_path))["metadata"]["resourceVersion"]
        await made.installation.kubectl.run("replace", "-f", "-", stdin=yaml.safe_dump(definition))

        async def is_back() -> bool:
            assert (await made.read(made.crd_path))["metadata"]["resourceVersion"] != held
            assert await made.ca_bundles() == before
            return True

        await eventually(20, is_back, every=0.1)

        async def is_converted() -> bool:
            await made.cluster.client.request(
                "POST", made.path("v1alpha1"), body=made.document("again", "v1alpha1")
            )
            return True

        await eventually(20, is_converted)
        found = await made.read(made.path("v1", "again"))
        assert found["spec"]["sizeGi"] == 3


async def is_gone(cluster: TestCluster, namespace: str) -> bool:
    """Whether a namespace does not exist any more."""
    try:
        await cluster.client.get(kinds.Namespace, namespace)
    except NotFound:
        return True
    return False


@pytest.mark.behaviour("B23")
@pytest.mark.parametrize("first", ["uninstall", "namespace"])
async def test_no_namespace_hangs_for_a_conversion_that_is_dead(
    subject: Subject, cluster: TestCluster, first: str
) -> None:
    """Objects that nobody can convert any more go with their namespace, once uninstalled."""
    subject.control()
    subject.serve()
    await stored_as_old(subject)
    other = (await cluster.namespace("un-hangs")).name
    await subject.create("left", other, kind=subject.old_kind, books=3)
    await subject.apply()
    await eventually(10, lambda: is_unreadable(subject))
    if first == "namespace":
        await cluster.client.delete(kinds.Namespace, other)
        await asyncio.sleep(5)
        assert not await is_gone(cluster, other)
    await subject.uninstall(strip_finalizers=True)
    if first == "uninstall":
        await cluster.client.delete(kinds.Namespace, other)
    await eventually(GONE_SECONDS, lambda: is_gone(cluster, other), every=0.2)
    assert await subject.left() == []
