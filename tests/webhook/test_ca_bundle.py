"""Which entries are ours, and what the patch does to them, judged by another JSON patch library."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import jsonpatch
import pytest

from rws_operator.errors import Invalid
from rws_operator.webhook.ca_bundle import (
    BundleObject,
    all_entries,
    elsewhere,
    our_entries,
    patch_of,
)
from rws_operator.webhook.certificate import WebhookCertificate
from tests.webhook.keeper_kit import CRD, VALIDATING, Site, encode, held_by

if TYPE_CHECKING:
    from rws_operator.client import Client

ONE, TWO, THREE = (WebhookCertificate.generate("hook", "ns").ca_pem for _ in range(3))
OURS = BundleObject(VALIDATING, "ours", frozenset({"validate.things.example.com"}))


def configuration(*entries: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """A configuration as it is read."""
    return {"webhooks": [{"name": name, "clientConfig": config} for name, config in entries]}


def at(service: str, bundle: str | None = None) -> dict[str, Any]:
    """A clientConfig that calls a Service."""
    config: dict[str, Any] = {"service": {"name": service, "namespace": "ns", "port": 443}}
    return config if bundle is None else {**config, "caBundle": encode(bundle)}


class TestEntries:
    """Ours by name, and by what is called."""

    def test_only_ours_that_call_us(self):
        """Another's name, another's Service or namespace: not ours to touch."""
        name = "validate.things.example.com"
        found = configuration(
            ("validate.other.example.com", at("hook")),
            (name, at("another")),
            (name, {"service": {"name": "hook", "namespace": "elsewhere"}}),
            (name, at("hook")),
            (name, {"url": "https://127.0.0.1:9443"}),
        )
        paths = [each.path for each in our_entries(OURS, found, ("hook", "ns"))]
        assert paths == ["/webhooks/3/clientConfig", "/webhooks/4/clientConfig"]
        assert [each.path for each in our_entries(OURS, found, None)] == paths[1:]
        others = elsewhere(OURS, found, ("hook", "ns"))
        assert [each.partition(" calls Service ")[2].partition(":")[0] for each in others] == [
            "ns/another, not ours (ns/hook)",
            "elsewhere/hook, not ours (ns/hook)",
        ]

    def test_a_crd_only_while_a_webhook_converts_it(self):
        """Strategy None has no caBundle, also where remains of a webhook stand beside it."""
        crd = BundleObject(CRD, "things")
        conversion: dict[str, Any] = {"strategy": "None", "webhook": {"clientConfig": at("hook")}}
        assert not our_entries(crd, {"spec": {"conversion": conversion}}, ("hook", "ns"))
        conversion["strategy"] = "Webhook"
        [entry] = our_entries(crd, {"spec": {"conversion": conversion}}, ("hook", "ns"))
        assert entry.path == "/spec/conversion/webhook/clientConfig"
        assert not our_entries(crd, {"spec": {"conversion": conversion}}, ("hook", "x"))
        assert not all_entries(crd, {"spec": {}})
        assert not all_entries(OURS, {})

    @pytest.mark.parametrize("text", ["", "\n", "no PEM", "-----BEGIN CERTIFICATE-----\nx"])
    def test_what_cannot_be_read_holds_nothing(self, text):
        """An unreadable caBundle is replaced, not an error."""
        [entry] = all_entries(OURS, configuration(("x", at("hook", text))))
        assert entry.holds == ()
        [entry] = all_entries(OURS, configuration(("x", {**at("hook"), "caBundle": "%%%"})))
        assert entry.holds == ()


class TestPatch:
    """What is written."""

    def test_changes_caBundle_alone(self):  # noqa: N802
        """Every other byte of the object stays, and what is right is not in the patch."""
        found = configuration(
            ("a", at("hook")), ("b", at("hook", ONE + TWO)), ("c", at("hook", TWO))
        )
        patch = patch_of(all_entries(OURS, found), lambda _: (ONE, TWO))
        after = jsonpatch.apply_patch(found, json.loads(json.dumps(patch)))
        assert [held_by(each["clientConfig"]) for each in after["webhooks"]] == [(ONE, TWO)] * 3
        assert not any("/webhooks/1/" in each["path"] for each in patch)
        for each in (*after["webhooks"], *found["webhooks"]):
            each["clientConfig"].pop("caBundle", None)
        assert after == found

    def test_is_told_what_each_holds(self):
        """So that what another replica put there can be kept."""
        found = configuration(("a", at("hook", THREE)), ("b", at("hook")))
        patch = patch_of(all_entries(OURS, found), lambda held: (*held, ONE))
        after = jsonpatch.apply_patch(found, patch)
        assert [held_by(each["clientConfig"]) for each in after["webhooks"]] == [
            (THREE, ONE),
            (ONE,),
        ]

    @pytest.mark.parametrize("change", ["moved", "renamed", "another bundle", "another service"])
    def test_is_refused_where_the_entry_is_not_the_one_that_was_read(self, change):
        """Whole, so that nobody else's entry gets our CA, and no write of theirs is lost."""
        found = configuration(("a", at("hook", ONE)), ("b", at("other")))
        patch = patch_of(all_entries(OURS, found)[:1], lambda _: (TWO,))
        now = copy.deepcopy(found)
        if change == "moved":
            now["webhooks"].reverse()
        elif change == "renamed":
            now["webhooks"][0]["name"] = "c"
        elif change == "another bundle":
            now["webhooks"][0]["clientConfig"] = at("hook", THREE)
        else:
            now["webhooks"][0]["clientConfig"] = at("other", ONE)
        with pytest.raises(jsonpatch.JsonPatchTestFailed):
            jsonpatch.apply_patch(now, patch)

    async def test_the_api_server_refuses_it_too(self, cluster, namespace):
        """A patch of what has changed since is answered by 422, and nothing is written."""
        site = Site(cluster.client, namespace.name)
        client: Client = cluster.client
        try:
            read = await client.create(site.validating())
            patch = patch_of(all_entries(OURS, read), lambda _: (TWO,))
            await site.set_bundle(VALIDATING, ONE)
            with pytest.raises(Invalid):
                await client.patch(VALIDATING, site.name, patch=patch, type="json")
            assert (await site.bundles())["validate.things.example.com"] == (ONE,)
        finally:
            await site.remove()
