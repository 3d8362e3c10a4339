"""The whole life of an operator in one program, on a real Kubernetes API server.

It starts a control plane on this machine, installs the operator of `app/`, runs two replicas, and
shows what happens as Backups come, change, break and go, what the webhooks do about it, and how the
standby takes over as the leader dies.
Each step is checked, not only shown: the program exits 0 only if all of them were seen.

KEEP=1 in the environment leaves everything running and prints how to look at it and end it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from examples.backup.keep import Keeper
from examples.backup.stage import (
    HERE,
    KUBECTL,
    Kubectl,
    NotSeen,
    Play,
    Replica,
    Service,
    manifests,
    wait_for,
)
from rws_operator.testing.audit import AuditLog
from rws_operator.testing.control_plane import ControlPlane
from rws_operator.testing.errors import ControlPlaneError
from rws_operator.testing.waiting import tell_interrupted

NAMESPACE = "backup-operator"
LEASE_SECONDS = 15


class Demo:
    """The steps, in order, on one control plane."""

    def __init__(self, control_plane: ControlPlane, folder: Path) -> None:
        self.control_plane = control_plane
        self.kubectl = Kubectl(control_plane.kubeconfig)
        self.play = Play()
        self.service = Service()
        self.replicas: dict[str, Replica] = {}
        self._folder = folder

    def run(self) -> None:
        """Play all the steps."""
        self.install()
        self.elect()
        self.create()
        self.mutate()
        self.edit()
        self.refuse()
        self.deny()
        self.convert()
        self.take_over()
        self.delete()
        self.check_permissions()
        self.hand_over()

    def install(self) -> None:
        """The operator's own program prints what installs it."""
        with self.play.step("Install the operator from its own manifests") as step:
            printed = manifests("--namespace", NAMESPACE, "--image", "backup-operator:demo")
            print(
                "   There are no nodes: an ExternalName Service to localhost and a forwarder on"
                f" port {self.service.port} stand for the Service"
            )
            self.kubectl.show("apply", "-f", "-", stdin=self.service.stand_in(printed))
            wait_for("the kind backups.example.com", 15, self._is_served)
            step.seen = f"{printed.count('---')} objects applied in one go"

    def _is_served(self) -> bool:
        return self.kubectl.run("get", "backups.example.com").returncode == 0

    def elect(self) -> None:
        """Two replicas start; one becomes the leader, the other stands by."""
        with self.play.step("Start two replicas, each with its ServiceAccount's token") as step:
            for name in ("replica-a", "replica-b"):
                self.start(name)
            for replica in self.replicas.values():
                self.service.lead_to(replica)
            leader = wait_for("a leader", 15, self.leader)
            self.kubectl.show("get", "lease", "-n", NAMESPACE)
            step.seen = f"{leader} leads, {self.standby(leader)} stands by"

    def start(self, name: str) -> None:
        """Start a replica that may do what its ServiceAccount may, and nothing else."""
        issued = self.control_plane.service_account_kubeconfig(NAMESPACE, NAMESPACE)
        self.replicas[name] = Replica(name, NAMESPACE, asyncio.run(issued), self._folder)
        print(f"   started {name}, process {self.replicas[name].process.pid}")

    def leader(self) -> str | None:
        """The running replica that the Lease names."""
        for name, replica in self.replicas.items():
            if (code := replica.process.poll()) is not None:
                raise NotSeen(f"{name} ended with code {code}:\n{replica.tail()}")
        lease = self.kubectl.get("lease", "backup-operator", "-n", NAMESPACE)
        holder = ((lease or {}).get("spec") or {}).get("holderIdentity") or ""
        return next((name for name in self.replicas if holder.startswith(name)), None)

    def standby(self, leader: str) -> str:
        """The other replica."""
        return next(name for name in self.replicas if name != leader)

    def create(self) -> None:
        """Each Backup gets a CronJob, a status, a condition and an event."""
        with self.play.step("Create three Backups: CronJobs, status, conditions, events") as step:
            self.kubectl.show("apply", "-f", _shown("backups.yaml"))
            wait_for("three Backups ready", 15, self.are_ready)
            self.kubectl.show("get", "backups")
            self.kubectl.show("get", "cronjobs")
            condition = '{.status.conditions[?(@.type=="Ready")].message}'
            message = self.kubectl.show("get", "backup", "orders", "-o", f"jsonpath={condition}")
            if "CronJob" not in message:
                raise NotSeen(f"the condition Ready says {message!r}")
            wait_for("an event of each Backup", 15, lambda: self.events("Scheduled") >= 3)
            self.kubectl.show("events", "--types=Normal")
            step.seen = "3 Backups ready, 3 CronJobs, 3 events"

    def are_ready(self) -> bool:
        """Whether all Backups are."""
        return all(map(self.is_ready, ("orders", "users", "metrics")))

    def is_ready(self, name: str) -> bool:
        """Whether the operator reports the Backup's present schedule, and the CronJob has it."""
        backup = self.kubectl.get("backup", name) or {}
        job = self.kubectl.get("cronjob", name) or {}
        wanted = backup.get("spec", {}).get("schedule")
        status = backup.get("status", {})
        applied = job.get("spec", {}).get("schedule")
        return bool(status.get("ready")) and status.get("schedule") == wanted == applied

    def events(self, reason: str) -> int:
        """How many events of that reason there are."""
        found = self.kubectl.get("events.v1.events.k8s.io", "--field-selector", f"reason={reason}")
        return len((found or {}).get("items", ()))

    def mutate(self) -> None:
        """The mutating webhook knows who asks, which no default in a schema does."""
        with self.play.step("Mutate: the webhook fills in who owns a Backup") as step:
            asked = ["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]
            user = self.kubectl.show(*asked)
            columns = "custom-columns=NAME:.metadata.name,DATABASE:.spec.database,OWNER:.spec.owner"
            self.kubectl.show("get", "backups", "-o", columns)
            owners = self.owners()
            if set(owners) != {user}:
                raise NotSeen(f"the owners are {owners}")
            step.seen = f"all {len(owners)} Backups belong to {user}, who created them"

    def owners(self) -> list[str]:
        """Whose each Backup is."""
        items = (self.kubectl.get("backups") or {}).get("items", ())
        return [item["spec"].get("owner") for item in items]

    def edit(self) -> None:
        """The CronJob follows the Backup, and comes back when someone spoils it."""
        with self.play.step("Edit a Backup, and spoil its CronJob") as step:
            self.patch("backup", "orders", "0 5 * * *")
            wait_for("the CronJob's new schedule", 10, lambda: self.has_schedule("0 5 * * *"))
            self.patch("cronjob", "orders", "59 23 31 12 *")
            wait_for("the schedule's repair", 10, lambda: self.has_schedule("0 5 * * *"))
            self.kubectl.show("get", "cronjob", "orders")
            step.seen = "the CronJob followed, and was put right again"

    def patch(self, kind: str, name: str, schedule: str, *, refused: bool = False) -> str:
        """Change the schedule of a Backup or a CronJob."""
        change = f'{{"spec":{{"schedule":"{schedule}"}}}}'
        arguments = ("patch", kind, name, "--type=merge", "-p", change)
        return self.kubectl.show(*arguments, refused=refused)

    def has_schedule(self, schedule: str, name: str = "orders") -> bool:
        """Whether the CronJob has this schedule."""
        job = self.kubectl.get("cronjob", name) or {}
        return bool(job.get("spec", {}).get("schedule") == schedule)

    def refuse(self) -> None:
        """The schema refuses what the model forbids, before the operator ever sees it."""
        with self.play.step("Break a Backup: the API server refuses it") as step:
            message = self.patch("backup", "users", "every night", refused=True)
            if "spec.schedule" not in message:
                raise NotSeen("the refusal does not name spec.schedule")
            step.seen = "refused, naming spec.schedule"

    def deny(self) -> None:
        """The validating webhook looks at the other objects, which no rule in a schema can."""
        with self.play.step("Validate: the webhook denies a second Backup of a database") as step:
            message = self.kubectl.show("apply", "-f", _shown("second.yaml"), refused=True)
            expected = "Backup orders has the database orders already"
            if expected not in message:
                raise NotSeen(f"the denial does not say {expected!r}")
            step.seen = "denied, and kubectl shows the operator's own words"

    def convert(self) -> None:
        """A Backup of the first version becomes one of today's, and can be read as either."""
        with self.play.step("Convert: a v1alpha1 Backup is stored and served as v1") as step:
            self.kubectl.show("apply", "-f", _shown("v1alpha1.yaml"))
            wait_for("the Backup ready", 10, lambda: self.is_ready("archive"))
            specs = []
            for version in ("v1alpha1", "v1"):
                kind = f"backups.{version}.example.com"
                specs.append(self.kubectl.show("get", kind, "archive", "-o", "jsonpath={.spec}"))
            old, new = map(json.loads, specs)
            if (old["cron"], old["keep"]) != ("0 6 * * 0", "90d"):
                raise NotSeen(f"at v1alpha1 it is {old}")
            if (new["schedule"], new["retentionDays"]) != ("0 6 * * 0", 90):
                raise NotSeen(f"at v1 it is {new}")
            step.seen = "cron and keep became schedule and retentionDays; both can be read"

    def take_over(self) -> None:
        """The standby waits until the Lease has expired, then does what was left undone."""
        with self.play.step("Kill the leader: the standby takes over") as step:
            leader = wait_for("a leader", 5, self.leader)
            heir = self.standby(leader)
            print(f"   $ kill -9 {self.replicas[leader].process.pid}   # {leader}")
            self.replicas.pop(leader).stop()
            killed = time.monotonic()
            self.service.forget(leader)
            schedule = "45 4 * * *"
            self.patch("backup", "users", schedule)
            limit = LEASE_SECONDS + 2
            print(f"   waiting for {heir}: the Lease lasts {LEASE_SECONDS} s", flush=True)
            wait_for(f"{heir} as the leader", limit, lambda: self.leader() == heir)
            took = time.monotonic() - killed
            wait_for("the edit made since", 10, lambda: self.has_schedule(schedule, "users"))
            self.kubectl.show("get", "lease", "-n", NAMESPACE)
            self.start(leader)
            self.service.lead_to(self.replicas[leader])
            step.seen = f"{heir} leads after {took:.1f} s and saw to the edit made meanwhile"

    def delete(self) -> None:
        """The finalizer's cleanup runs first; Kubernetes then collects the CronJob."""
        with self.play.step("Delete a Backup: cleanup runs, its CronJob is collected") as step:
            self.kubectl.show("delete", "backup", "metrics", "--timeout=30s")
            wait_for("the cleanup's event", 10, lambda: self.events("DataRemoved") == 1)
            self.kubectl.show("events", "--for=backup/metrics")
            print(
                "   waiting for the garbage collector; it looks for new kinds every 30 s",
                flush=True,
            )
            wait_for("the CronJob's collection", 60, self._is_collected)
            self.kubectl.show("get", "backups,cronjobs")
            step.seen = "cleaned up, gone, and the CronJob with it"

    def _is_collected(self) -> bool:
        return self.kubectl.get("cronjob", "metrics") is None

    def check_permissions(self) -> None:
        """No request was ever refused: the printed rules are enough."""
        with self.play.step("Look for refused requests in the API server's audit log") as step:
            account = f"system:serviceaccount:{NAMESPACE}:{NAMESPACE}"
            requests = AuditLog(self.control_plane.audit_log).entries(user=account)
            if refused := [request for request in requests if request.code == 403]:
                raise NotSeen(f"refused: {refused[0].verb} {refused[0].uri}")
            if not requests:
                raise NotSeen(f"the audit log holds no request of {account}")
            step.seen = f"none in {len(requests)}: the printed permissions were enough"

    def hand_over(self) -> None:
        """A leader that is stopped gives the Lease back, so nobody waits for it to expire."""
        with self.play.step("Stop the leader: it drains, releases the Lease, and exits 0") as step:
            leader = wait_for("a leader", 5, self.leader)
            heir = self.standby(leader)
            print(f"   $ kill -15 {self.replicas[leader].process.pid}   # {leader}")
            stopped = time.monotonic()
            leaving = self.replicas[leader]
            leaving.process.send_signal(signal.SIGTERM)
            wait_for(f"{heir} as the leader", 3, lambda: self.leader() == heir)
            took = time.monotonic() - stopped
            print("   waiting for its end: it answers webhooks until no Service leads to it")
            if (code := leaving.wait(40)) != 0:
                raise NotSeen(f"{leader} exited with code {code}:\n{leaving.tail()}")
            del self.replicas[leader]
            step.seen = f"{heir} leads {took:.1f} s after the signal; exit code 0"

    def stop(self) -> None:
        """End the replicas and what stands for their Service."""
        for replica in self.replicas.values():
            replica.stop()
        self.service.stop()


def main() -> int:
    """Run the demo and return its exit code."""
    try:
        if os.environ.get("KEEP", "") in ("", "0"):
            return play(None)
        keeper = Keeper.fork()
        return keeper if isinstance(keeper, int) else play(keeper)
    except KeyboardInterrupt:
        return tell_interrupted()


def play(keeper: Keeper | None) -> int:
    """Play the demo on a control plane of its own; a keeper leaves it up afterwards."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with contextlib.ExitStack() as stack:
        print(
            "Starting a Kubernetes control plane: etcd, API server, controller manager", flush=True
        )
        try:
            control_plane = stack.enter_context(ControlPlane(audit=True))
        except ControlPlaneError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rws-demo-")))
        demo = Demo(control_plane, folder)
        stack.callback(demo.stop)
        code = _play(demo)
        if keeper is not None:
            for name in {"replica-a", "replica-b"} - demo.replicas.keys():
                demo.start(name)
                demo.service.lead_to(demo.replicas[name])
            _explain(demo, folder)
            keeper.leave_up(code)
    return code


def _play(demo: Demo) -> int:
    try:
        demo.run()
    except NotSeen as error:
        print(f"   ✗ {error}", flush=True)
        for replica in demo.replicas.values():
            print(f"\nThe last lines of {replica.name}:\n{replica.tail()}")
    print(f"\n{demo.play.summary()}", flush=True)
    return 0 if all(step.passed for step in demo.play.steps) else 1


def _shown(file: str) -> str:
    return str((HERE / file).relative_to(Path.cwd()))


def _explain(demo: Demo, folder: Path) -> None:
    print(
        "\nLeft running. There are no nodes: pods stay Pending, the replicas are processes.\n"
        + "".join(f"   {_whereabouts(each)}\n" for each in demo.replicas.values())
        + "Look around, and end it when you are done:\n"
        f"   export KUBECONFIG={demo.control_plane.kubeconfig}\n"
        f"   {KUBECTL} get backups\n"
        f"   tail -f {folder}/*.log\n"
        f"   kill {os.getpid()}",
        flush=True,
    )


def _whereabouts(replica: Replica) -> str:
    try:
        port = wait_for("its HTTP port", 15, replica.http_port)
    except NotSeen as error:
        return f"{replica.name}: process {replica.process.pid}, {error}"
    return (
        f"{replica.name}: process {replica.process.pid}, "
        f"http://127.0.0.1:{port}/metrics and /readyz?verbose"
    )


if __name__ == "__main__":
    sys.exit(main())
