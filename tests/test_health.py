"""What the health checks say, and that none of them can hold the answer up."""

import asyncio

import pytest

from rws_operator.errors import ConfigurationError
from rws_operator.health import FirstSync, Health, task_is_alive


async def test_no_check_is_a_pass() -> None:
    """A process that promises nothing is alive and ready."""
    health = Health()
    assert (await health.readyz()).text() == "ok\n"
    assert (await health.livez()).ok


async def test_a_failing_check_is_named_with_its_reason() -> None:
    """The short answer holds what fails; the verbose one every check."""
    health = Health()
    health.add_readiness("operator backup", lambda: "not synced: backups.example.com: 403")
    health.add_readiness("certificate", lambda: None)
    report = await health.readyz()
    assert not report.ok
    failing = "[-]operator backup failed: not synced: backups.example.com: 403\n"
    assert report.text() == failing + "readyz check failed\n"
    assert report.text(verbose=True) == failing + "[+]certificate ok\nreadyz check failed\n"


async def test_liveness_and_readiness_are_apart() -> None:
    """A replica that is not ready yet must not be restarted for it."""
    health = Health()
    health.add_readiness("operator", lambda: "starting")
    assert (await health.livez()).ok
    health.add_liveness("loop", lambda: "dead")
    assert "[-]loop failed: dead" in (await health.livez()).text()


async def test_an_excluded_check_does_not_count() -> None:
    """What was excluded is listed, and a name that fits nothing is pointed out."""
    health = Health()
    health.add_readiness("operator", lambda: "starting")
    report = await health.readyz(["operator", "typo"])
    assert report.ok
    verbose = report.text(verbose=True)
    assert "excluded: operator" in verbose
    assert "no such check to exclude: typo" in verbose


async def test_a_check_that_hangs_fails_in_time() -> None:
    """One bad check costs its own answer, not the page."""
    health = Health(check_seconds=0.05)

    async def hang() -> str | None:
        await asyncio.sleep(60)
        return None

    health.add_liveness("webhook", hang)
    health.add_liveness("loop", lambda: None)
    async with asyncio.timeout(10):
        report = await health.livez()
    assert report.results == {"webhook": "gave no answer within 0.05 s", "loop": None}


async def test_a_check_that_raises_fails() -> None:
    """A broken check is a failed one, with the error as its reason."""

    def broken() -> str | None:
        raise KeyError("x")

    health = Health()
    health.add_liveness("loop", broken)
    health.add_note("watch", broken)  # type: ignore[arg-type]
    report = await health.livez()
    assert report.results == {"loop": "raised KeyError('x')"}
    assert report.notes == ("watch: raised KeyError('x')",)


async def test_draining_is_not_ready_but_alive() -> None:
    """A stopping process gets no new traffic, and is not killed for it."""
    health = Health()
    health.drain()
    assert "[-]shutdown failed: the process is stopping" in (await health.readyz()).text()
    assert (await health.livez()).ok


def test_a_second_check_of_one_name_is_refused() -> None:
    """Two checks under one name could not be told apart."""
    health = Health()
    health.add_readiness("operator", lambda: None)
    with pytest.raises(ConfigurationError, match="'operator' exists"):
        health.add_readiness("operator", lambda: None)


async def test_the_first_sync_latches_and_a_later_failure_is_a_note() -> None:
    """A watch that fails after the first sync is shown, but takes no webhook away."""
    missing = ["backups.example.com: 404 the CRD does not exist", "secrets: 403 may not watch"]
    health = Health()
    health.add_readiness("operator backup", FirstSync(lambda: missing))
    health.add_note("watch", lambda: missing)
    assert (
        "backups.example.com: 404 the CRD does not exist; secrets: 403 may not watch"
        in (await health.readyz()).text()
    )
    missing = []
    assert (await health.readyz()).ok
    missing = ["secrets: 403 may not watch"]
    report = await health.readyz()
    assert report.ok
    assert "[i]watch: secrets: 403 may not watch" in report.text(verbose=True)


async def test_a_dead_task_fails_liveness() -> None:
    """Whether it failed, ended or was cancelled: it should have run for ever."""

    async def fail() -> None:
        raise ValueError("no")

    async def end() -> None:
        return

    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(asyncio.sleep(60)) for _ in range(2)]
    tasks += [loop.create_task(fail()), loop.create_task(end())]
    tasks[1].cancel()
    await asyncio.wait(tasks[1:])
    assert [task_is_alive(task)() for task in tasks] == [
        None,
        "its task was cancelled",
        "its task ended: ValueError('no')",
        "its task ended",
    ]
    tasks[0].cancel()
