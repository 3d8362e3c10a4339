"""Certificate files that change under a serving Operator, on the real API server."""

from __future__ import annotations

import asyncio
import base64
import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

from rws_operator import WebhookCertificate
from rws_operator.resources import kinds
from rws_operator.testing import eventually
from rws_operator.webhook import mounted
from tests.operator_kit import fetch
from tests.test_operator_webhooks import Boxes, boxes, forwarder
from tests.webhook.keeper_kit import handshake

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["boxes", "forwarder"]


def write(folder: Path, certificate: WebhookCertificate) -> None:
    """Write both files."""
    folder.mkdir(exist_ok=True)
    (folder / "tls.crt").write_text(certificate.cert_pem)
    (folder / "tls.key").write_text(certificate.key_pem)


async def trust(boxes: Boxes, certificates: list[WebhookCertificate]) -> None:
    """Have the API server trust each certificate's authority."""
    bundle = "".join(each.ca_pem for each in certificates).encode()
    path = "/webhooks/0/clientConfig/caBundle"
    patch = [{"op": "add", "path": path, "value": base64.b64encode(bundle).decode()}]
    await boxes.client.patch(
        kinds.ValidatingWebhookConfiguration, boxes.operator.name, patch=patch, type="json"
    )


class Mount:
    """Certificate files as the kubelet, cert-manager and careless scripts change them."""

    def __init__(self, folder: Path, certificate: WebhookCertificate) -> None:
        self.folder = folder
        write(folder / "..1", certificate)
        (folder / "..data").symlink_to("..1")
        for name in ("tls.crt", "tls.key"):
            (folder / name).symlink_to(f"..data/{name}")

    def swap(self, certificate: WebhookCertificate) -> None:
        """Replace the link that both files go through, at once."""
        write(self.folder / "..2", certificate)
        (self.folder / "..new").symlink_to("..2")
        os.replace(self.folder / "..new", self.folder / "..data")

    def rename(self, certificate: WebhookCertificate) -> None:
        """Put other files in the place of both."""
        write(self.folder / "next", certificate)
        for name in ("tls.crt", "tls.key"):
            os.replace(self.folder / "next" / name, self.folder / name)

    def write(self, certificate: WebhookCertificate) -> None:
        """Write over both, one after the other."""
        write(self.folder, certificate)

    def take_away(self) -> None:
        """Move both elsewhere."""
        for name in ("tls.crt", "tls.key"):
            os.replace(self.folder / name, self.folder / f"{name}.away")

    def bring_back(self) -> None:
        """Move both back."""
        for name in ("tls.crt", "tls.key"):
            os.replace(self.folder / f"{name}.away", self.folder / name)


class Calls:
    """Calls of the webhook, one after the other, for the length of a block."""

    def __init__(self, boxes: Boxes) -> None:
        self.answers: list[str] = []
        self._boxes = boxes

    async def __aenter__(self) -> Calls:
        self._task = asyncio.create_task(self._call())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _call(self) -> None:
        while True:
            self.answers.append(await self._boxes.refusal(size=13))

    async def answered(self) -> None:
        """Wait for the answer to a call that has not begun yet."""
        before = len(self.answers)
        await eventually(20, lambda: len(self.answers) >= before + 2)


async def is_served(boxes: Boxes, certificate: WebhookCertificate) -> bool:
    """Whether a handshake shows a certificate; raises where it shows another."""
    port = boxes.operator.webhook_port
    assert port is not None
    name = f"{boxes.operator.name}.{boxes.namespace}.svc"
    await handshake(port, certificate.ca_pem, name)
    return True


async def is_told(boxes: Boxes, problem: str) -> bool:
    """Whether the operator is ready, and says this."""
    status, text = await fetch(boxes.operator, "/readyz?verbose")
    return status == 200 and problem in text


async def is_told_nothing(boxes: Boxes) -> bool:
    """Whether readiness has no note about the webhooks."""
    return "[i]webhooks" not in (await fetch(boxes.operator, "/readyz?verbose"))[1]


@pytest.mark.behaviour("CRT-01")
async def test_no_call_fails_however_the_files_change(
    boxes: Boxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Swapped, renamed, rewritten, gone and back, and half changed: what is valid is served."""
    monkeypatch.setattr(mounted, "_POLL_SECONDS", 0.1)
    boxes.validate()
    made = [WebhookCertificate.generate(boxes.operator.name, boxes.namespace) for _ in range(4)]
    first, *others = made
    mount = Mount(tmp_path, first)
    files = (str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    async with boxes.installed(), boxes.served(tls_files=files):
        await trust(boxes, made)
        await eventually(20, boxes.answers)
        async with Calls(boxes) as calls:
            changes = (mount.swap, mount.rename, mount.write)
            for change, certificate in zip(changes, others, strict=True):
                change(certificate)
                await eventually(10, partial(is_served, boxes, certificate))
                await calls.answered()
            mount.take_away()
            await eventually(10, lambda: is_told(boxes, "No such file"))
            assert await is_served(boxes, others[-1])
            await calls.answered()
            mount.bring_back()
            await eventually(10, lambda: is_told_nothing(boxes))
            (tmp_path / "tls.key").write_text(first.key_pem)
            await eventually(10, lambda: is_told(boxes, "don't belong together"))
            assert await is_served(boxes, others[-1])
            await calls.answered()
    assert [each for each in calls.answers if "thirteen" not in each] == []
