"""Reviews a second: our webhooks beside a bare aiohttp handler that answers a constant.

    python bench/webhooks.py [--nested] [--rounds 5] [--seconds 1] [--require 0.5]

Reviews of a 10 kB object go over TLS on connections that stay open, 1, 8 and 32 at once, to each
of two servers: ours with a handler that validates, mutates or converts the typed object, and
aiohttp's own `web.Server` with a handler that reads the body and answers what ours answered, as
fixed bytes. The object holds one long text, as the reference workload's do, or with --nested 55
models of six fields. Handlers are `async def` and, on the lines that say so, plain `def`, which
runs in a thread. The line `convert-many` is of reviews of 50 such objects, as a list brings them,
one at once.

A third server, which is no HTTP server at all but writes fixed bytes for each that come, shows how
fast the load generator itself can go. Each server is a process of its own, the generator another,
and each kept on a core of its own; the runs of one round alternate between the servers, and the
medians of all rounds are printed. The server's CPU time for a review says most on a busy machine.
All servers spare the garbage collector what was there before, as an operator's process does.

With --require, the exit code is 1 if on any line ours answered less than that part of what the bare
handler did a second; `convert-many`, whose work a constant answer can't stand for, does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psutil
from aiohttp import web

from rws_operator import AdmissionRequest, CustomResource, Model
from rws_operator.listener import Listener
from rws_operator.process import spare_the_collector
from rws_operator.webhook.certificate import WebhookCertificate
from rws_operator.webhook.conversion import TypedConversion
from rws_operator.webhook.converters import Converters
from rws_operator.webhook.serving import WebhookServer
from rws_operator.webhook.serving_tls import ServingTls
from rws_operator.webhook.webhooks import Webhooks

CONCURRENCIES = (1, 8, 32)
CONSTANT_SERVERS = ("bare", "ceiling")
SINGLE_PATHS = ("/validate", "/mutate", "/convert")
PLAIN_PATHS = ("/validate-plain", "/mutate-plain", "/convert-plain")
MANY_PATH = "/convert-many"
PATHS = (*SINGLE_PATHS, *PLAIN_PATHS, MANY_PATH)
MANY = 50
CEILING_PATH = "/validate"
TARGETS = 55
TEXT_BYTES = 8800

_WARM_SECONDS = 0.2


class Target(Model):
    """One of many things to be backed up."""

    name: str
    host: str
    port: int = 5432
    is_paused: bool = False
    exclude: list[str] = []
    options: dict[str, str] = {}


class PlanSpec(Model):
    """What a Plan asks for."""

    schedule: str
    retention_days: int = 7
    owner: str | None = None
    script: str = ""
    targets: list[Target] = []


class Plan(CustomResource, group="bench.example.com", version="v1"):
    """A plan of backups."""

    spec: PlanSpec


class OldPlanSpec(Model):
    """What a Plan asked for."""

    cron: str
    keep: str = "7d"
    owner: str | None = None
    script: str = ""
    targets: list[Target] = []


class OldPlan(
    CustomResource, group="bench.example.com", version="v1alpha1", kind="Plan", storage=False
):
    """A plan of backups, as it was first."""

    spec: OldPlanSpec


def validate(request: AdmissionRequest[Plan]) -> None:
    """Look at each target."""
    spec = request.object.spec
    if len({target.name for target in spec.targets}) != len(spec.targets):
        request.warn("two targets of one name")


def mutate(request: AdmissionRequest[Plan]) -> Plan:
    """Say whose it is."""
    plan = request.object
    plan.spec.owner = request.user.username
    return plan


def upgrade(old: OldPlan) -> Plan:
    """To the stored version."""
    spec = PlanSpec(
        schedule=old.spec.cron,
        retention_days=int(old.spec.keep.removesuffix("d")),
        owner=old.spec.owner,
        script=old.spec.script,
        targets=old.spec.targets,
    )
    return Plan(metadata=old.metadata, spec=spec)


async def validate_async(request: AdmissionRequest[Plan]) -> None:
    """The same on the event loop."""
    validate(request)


async def mutate_async(request: AdmissionRequest[Plan]) -> Plan:
    """The same on the event loop."""
    return mutate(request)


async def upgrade_async(old: OldPlan) -> Plan:
    """The same on the event loop."""
    return upgrade(old)


def plan(version: str, spec: dict[str, Any], *, nested: bool) -> dict[str, Any]:
    """An object of 10 kB, as the API server has it: with managed fields."""
    targets = [
        {
            "name": f"database-{number:02}",
            "host": f"postgres-{number:02}.databases.svc.cluster.local",
            "exclude": ["audit_log", "sessions"],
            "options": {"compression": "zstd", "jobs": "4"},
        }
        for number in range(TARGETS)
    ]
    fields: dict[str, Any] = {f"f:{name}": {} for name in ("schedule", "retentionDays", "targets")}
    entry = {
        "manager": "kubectl-client-side-apply",
        "operation": "Update",
        "apiVersion": f"bench.example.com/{version}",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": fields},
    }
    return {
        "apiVersion": f"bench.example.com/{version}",
        "kind": "Plan",
        "metadata": {
            "name": "nightly",
            "namespace": "default",
            "uid": "5f1c6a58-7d0a-4a47-9a5d-0d8f1d8a0c11",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generation": 1,
            "labels": {"app.kubernetes.io/managed-by": "bench", "team": "storage"},
            "annotations": {"example.com/note": "n" * 200},
            "managedFields": [entry] * 3,
        },
        "spec": {**spec, **({"targets": targets} if nested else {"script": "x" * TEXT_BYTES})},
    }


def admission_review(*, nested: bool) -> bytes:
    """What the API server sends at a create."""
    kind = {"group": "bench.example.com", "version": "v1", "kind": "Plan"}
    resource = {"group": "bench.example.com", "version": "v1", "resource": "plans"}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": "nightly",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "jane", "groups": ["system:authenticated", "storage"]},
        "object": plan("v1", {"schedule": "0 2 * * *", "retentionDays": 30}, nested=nested),
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(review, separators=(",", ":")).encode()


def conversion_review(*, nested: bool, count: int) -> bytes:
    """What the API server sends to have objects converted."""
    old = plan("v1alpha1", {"cron": "0 2 * * *", "keep": "30d"}, nested=nested)
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "desiredAPIVersion": "bench.example.com/v1",
        "objects": [old] * count,
    }
    review = {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1"}
    return json.dumps({**review, "request": request}, separators=(",", ":")).encode()


def request_bytes(path: str, *, nested: bool) -> bytes:
    """A whole HTTP request, as Go's client writes it."""
    if path.startswith("/convert"):
        body = conversion_review(nested=nested, count=MANY if path == MANY_PATH else 1)
    else:
        body = admission_review(nested=nested)
    head = (
        f"POST {path}?timeout=10s HTTP/1.1\r\nHost: bench.default.svc:443\r\n"
        f"User-Agent: kube-apiserver-admission\r\nContent-Length: {len(body)}\r\n"
        "Accept: application/json, */*\r\nContent-Type: application/json\r\n"
        "Accept-Encoding: gzip\r\n\r\n"
    )
    return head.encode() + body


# The servers.


def keep_to_core(number: int) -> None:
    """Stay on one of this machine's cores, where it has several and Linux."""
    if sys.platform == "linux":
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})


async def serve(what: str, folder: Path) -> None:
    """Be one of the servers until killed; the port is the first line of output."""
    certificate = WebhookCertificate.from_secret(json.loads((folder / "secret.json").read_text()))
    tls = ServingTls()
    tls.use(certificate)
    if what == "ours":
        port = await serve_ours(tls)
    elif what == "bare":
        answers = {path: (folder / path.strip("/")).read_bytes() for path in PATHS}
        port = await serve_bare(tls.context, answers)
    else:
        answer = (folder / CEILING_PATH.strip("/")).read_bytes()
        port = await serve_ceiling(tls.context, int((folder / "size").read_text()), answer)
    spare_the_collector()
    print(port, flush=True)
    await asyncio.Event().wait()


async def serve_ours(tls: ServingTls) -> int:
    """Our webhooks, behind the listener that an Operator has."""
    on_loop, plain = Converters(), Converters()
    on_loop.add(OldPlan, Plan, upgrade_async)
    plain.add(OldPlan, Plan, upgrade)
    webhooks = (
        Webhooks()
        .validate(Plan, "/validate", validate_async)
        .mutate(Plan, "/mutate", mutate_async)
        .add(TypedConversion("/convert", on_loop))
        .add(TypedConversion(MANY_PATH, on_loop))
        .validate(Plan, "/validate-plain", validate, name="validate.plain.bench.example.com")
        .mutate(Plan, "/mutate-plain", mutate, name="mutate.plain.bench.example.com")
        .add(TypedConversion("/convert-plain", plain))
    )
    server = WebhookServer(
        Listener("127.0.0.1", 0, what="webhook", context=tls.context), webhooks.handle
    )
    await server.start()
    return server.port


async def serve_bare(context: ssl.SSLContext, answers: dict[str, bytes]) -> int:
    """Be aiohttp as it is."""

    async def answer(request: web.BaseRequest) -> web.Response:
        await request.read()
        return web.Response(body=answers[request.path], content_type="application/json")

    runner = web.ServerRunner(web.Server(answer), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port: int = runner.addresses[0][1]
    return port


class Ceiling(asyncio.Protocol):
    """Answers each request of known length with fixed bytes."""

    def __init__(self, size: int, answer: bytes) -> None:
        self._size = size
        self._answer = answer
        self._received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer once the request is whole."""
        self._received += len(data)
        if self._received == self._size:
            self._received = 0
            self._transport.write(self._answer)


async def serve_ceiling(context: ssl.SSLContext, size: int, answer: bytes) -> int:
    """What the generator can reach at most."""
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\n\r\n".encode()
    server = await asyncio.get_running_loop().create_server(
        lambda: Ceiling(size, head + answer), "127.0.0.1", 0, ssl=context
    )
    port: int = server.sockets[0].getsockname()[1]
    return port


# The load generator.


class Caller(asyncio.Protocol):
    """One connection that sends a request again as soon as it was answered."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._buffer = bytearray()
        self._size = 0
        self._sent = 0.0
        self.latencies: list[float] = []
        self.answer = b""
        self.is_running = False
        self.stopped = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def send(self) -> None:
        """Send the first request."""
        self.is_running = True
        self._sent = time.perf_counter()
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Take in an answer; once it is whole, send the next request."""
        self._buffer += data
        if not self._size:
            end = self._buffer.find(b"\r\n\r\n") + 4
            if end == 3:
                return
            head = bytes(self._buffer[:end]).lower()
            assert head.startswith(b"http/1.1 200 "), bytes(self._buffer)
            self._size = end + int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        if len(self._buffer) < self._size:
            return
        now = time.perf_counter()
        self.latencies.append(now - self._sent)
        self.answer = bytes(self._buffer)
        self._buffer.clear()
        self._size = 0
        if self.is_running:
            self._sent = now
            self.transport.write(self._request)
        else:
            self.stopped.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail, unless the caller was done."""
        if not self.stopped.done():
            self.stopped.set_exception(exc or ConnectionError("closed by the server"))


@dataclass
class Server:
    """A server's process."""

    name: str
    process: subprocess.Popen[str]
    port: int

    @classmethod
    def start(cls, name: str, folder: Path) -> Server:
        """Start it and wait until it listens."""
        process = subprocess.Popen(
            [sys.executable, __file__, "--serve", name, "--folder", str(folder)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"the server {name} did not start")
        return cls(name, process, int(line))

    def cpu_seconds(self) -> float:
        """CPU time used so far."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


@dataclass(frozen=True)
class Run:
    """What one run measured."""

    rate: float
    p99: float
    server_cpu: float
    generator_cpu: float

    @property
    def cost(self) -> float:
        """The server's CPU seconds for one review."""
        return self.server_cpu / self.rate


class Bench:
    """The servers, and what was measured.

    Args:
        context: The generator's TLS settings.
        nested: The object's shape.
        seconds: How long a run takes.
    """

    def __init__(self, context: ssl.SSLContext, *, nested: bool, seconds: float) -> None:
        self.servers: list[Server] = []
        self._context = context
        self._requests = {path: request_bytes(path, nested=nested) for path in PATHS}
        self._seconds = seconds
        self._runs: dict[tuple[str, int, str], list[Run]] = {}

    def start(self, name: str, folder: Path) -> Server:
        """Start a server."""
        server = Server.start(name, folder)
        self.servers.append(server)
        return server

    def size(self, path: str) -> int:
        """How many bytes a request has."""
        return len(self._requests[path])

    async def run(self, rounds: int) -> None:
        """Measure all there is, round after round."""
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            for path in PATHS:
                for concurrency in (1,) if path == MANY_PATH else CONCURRENCIES:
                    # Every other round the other way round: no server always comes first.
                    for server in self.servers[:: 1 if number % 2 else -1]:
                        if server.name == "ceiling" and path != CEILING_PATH:
                            continue
                        run = await self._measure(server, path, concurrency)
                        self._runs.setdefault((path, concurrency, server.name), []).append(run)

    def table(self) -> str:
        """The medians."""
        lines = [
            f"{'':15} {'':>4}  {'server':8} {'reviews/s':>9} {'ratio':>6} {'p99 ms':>7}"
            f" {'CPU us':>7} {'ratio':>6}   busy: server, generator"
        ]
        for (path, concurrency, name), runs in sorted(self._runs.items(), key=_order):
            ratio = self._ratio(path, concurrency, name)
            bare_cost = median(self._runs[path, concurrency, "bare"], "cost")
            rate, cost = median(runs, "rate"), median(runs, "cost")
            lines.append(
                f"{path.strip('/'):15} {concurrency:>4}  {name:8} {rate:>9.0f} {ratio:>6.2f} "
                f"{median(runs, 'p99') * 1e3:>7.2f} {cost * 1e6:>7.0f} {bare_cost / cost:>6.2f} "
                f"{median(runs, 'server_cpu'):>14.0%}, {median(runs, 'generator_cpu'):.0%}"
            )
        return "\n".join(lines)

    def _ratio(self, path: str, concurrency: int, name: str) -> float:
        """How many reviews a second a server answered, beside the bare handler."""
        rate = median(self._runs[path, concurrency, name], "rate")
        return rate / median(self._runs[path, concurrency, "bare"], "rate")

    def below(self, required: float) -> list[str]:
        """The lines on which ours answered less than this part of what the bare handler did."""
        return [
            f"{path.strip('/')} {concurrency}: {ratio:.2f}"
            for path in (*SINGLE_PATHS, *PLAIN_PATHS)
            for concurrency in CONCURRENCIES
            if (ratio := self._ratio(path, concurrency, "ours")) < required
        ]

    async def _connect(self, server: Server, path: str) -> Caller:
        request = self._requests[path]
        _, caller = await asyncio.get_running_loop().create_connection(
            lambda: Caller(request),
            "127.0.0.1",
            server.port,
            ssl=self._context,
            server_hostname="bench.default.svc",
        )
        return caller

    async def _measure(self, server: Server, path: str, concurrency: int) -> Run:
        """Keep so many calls under way for a while."""
        callers = [await self._connect(server, path) for _ in range(concurrency)]
        for caller in callers:
            caller.send()
        await asyncio.sleep(_WARM_SECONDS)
        for caller in callers:
            caller.latencies.clear()
        cpu, own, started = server.cpu_seconds(), time.process_time(), time.perf_counter()
        await asyncio.sleep(self._seconds)
        took = time.perf_counter() - started
        cpu, own = server.cpu_seconds() - cpu, time.process_time() - own
        latencies = sorted(each for caller in callers for each in caller.latencies)
        if not latencies:
            raise SystemExit(f"{server.name} answered nothing at {path}: give it longer --seconds")
        for caller in callers:
            caller.is_running = False
        await asyncio.gather(*(caller.stopped for caller in callers))
        for caller in callers:
            caller.transport.close()
        return Run(
            rate=len(latencies) / took,
            p99=latencies[int(len(latencies) * 0.99)],
            server_cpu=cpu / took,
            generator_cpu=own / took,
        )

    async def answer(self, server: Server, path: str) -> bytes:
        """The body of one answer, checked."""
        caller = await self._connect(server, path)
        caller.send()
        caller.is_running = False
        await caller.stopped
        caller.transport.close()
        body = caller.answer.split(b"\r\n\r\n", 1)[1]
        if not is_good(path, json.loads(body)["response"]):
            raise SystemExit(f"{path} was answered {body[:500]!r}")
        return body


def is_good(path: str, response: dict[str, Any]) -> bool:
    """Whether a webhook did what it is for."""
    if path.startswith("/convert"):
        done = response["result"]["status"] == "Success"
        specs = [each["spec"] for each in response["convertedObjects"]]
        count = MANY if path == MANY_PATH else 1
        return bool(done and len(specs) == count and specs[-1]["retentionDays"] == 30)
    return bool(response["allowed"] and ("patch" in response) == path.startswith("/mutate"))


def _order(item: tuple[tuple[str, int, str], list[Run]]) -> tuple[int, int, int]:
    path, concurrency, name = item[0]
    return PATHS.index(path), concurrency, ("ours", *CONSTANT_SERVERS).index(name)


def median(runs: list[Run], field: str) -> float:
    """The median of one figure."""
    return float(statistics.median(getattr(run, field) for run in runs))


async def main(*, nested: bool, rounds: int, seconds: float, required: float) -> int:
    """Start the servers, compare them, stop them; return the exit code."""
    certificate = WebhookCertificate.generate("bench", "default")
    context = ssl.create_default_context(cadata=certificate.ca_pem)
    bench = Bench(context, nested=nested, seconds=seconds)
    with tempfile.TemporaryDirectory(prefix="rws-bench-") as name:
        folder = Path(name)
        secret = folder / "secret.json"
        secret.touch(mode=0o600)
        secret.write_text(json.dumps(certificate.to_secret("bench", "default")))
        (folder / "size").write_text(str(bench.size(CEILING_PATH)))
        try:
            ours = bench.start("ours", folder)
            for path in PATHS:
                (folder / path.strip("/")).write_bytes(await bench.answer(ours, path))
            for each in CONSTANT_SERVERS:
                bench.start(each, folder)
            keep_to_core(0)  # not before: what is started inherits it
            await bench.run(rounds)
        finally:
            for server in bench.servers:
                server.stop()
    sizes = ", ".join(
        f"{path.strip('/')} {bench.size(path)} B" for path in (*SINGLE_PATHS, MANY_PATH)
    )
    shape = f"{TARGETS} nested models" if nested else "one long text"
    print(f"requests of {shape}: {sizes}; medians of {rounds} rounds of {seconds} s a run")
    print(bench.table())
    below = bench.below(required)
    if below:
        print(f"below {required:g} of the bare handler: {', '.join(below)}", file=sys.stderr)
    return 1 if below else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nested", action="store_true", help="an object of many small models")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--require", type=float, default=0.0, help="least ratio, for the exit code")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        keep_to_core(1)
        asyncio.run(serve(arguments.serve, arguments.folder))
    else:
        sys.exit(
            asyncio.run(
                main(
                    nested=arguments.nested,
                    rounds=arguments.rounds,
                    seconds=arguments.seconds,
                    required=arguments.require,
                )
            )
        )
