"""Renewed credentials: when they are renewed, and what happens when they can't be."""

import asyncio
import math
import re
import traceback
from pathlib import Path

import pytest

from rws_operator.client.credentials import Credential, RenewedCredentials
from rws_operator.client.token_file import TokenFile
from rws_operator.errors import KubeconfigError

pytestmark = pytest.mark.virtual_time


class Numbered:
    """A source whose credentials are numbered; each takes half a second to get."""

    def __init__(self, life: float = 60.0, *, takes: float = 0.5) -> None:
        self.life = life
        self.takes = takes
        self.runs = 0
        self.refusals = 0
        self.broken = False

    def __str__(self) -> str:
        return "the source"

    async def renew(self, *, refused: bool) -> Credential:
        """Give the next number."""
        self.runs += 1
        self.refusals += refused
        await asyncio.sleep(self.takes)
        if self.broken:
            raise KubeconfigError(f"run {self.runs} failed")
        return Credential(f"Bearer {self.runs}", seconds=self.life)


async def test_renewed_when_old_and_not_before() -> None:
    """A credential is used for its life, then renewed once."""
    source = Numbered()
    credentials = RenewedCredentials(source)
    assert await credentials.authorization() == "Bearer 1"
    await asyncio.sleep(58)
    assert await credentials.authorization() == "Bearer 1"
    await asyncio.sleep(2)
    assert await credentials.authorization() == "Bearer 2"
    assert source.runs == 2


async def test_one_renewal_for_all_who_wait() -> None:
    """A hundred requests at once cause one renewal."""
    source = Numbered()
    credentials = RenewedCredentials(source)
    found = await asyncio.gather(*(credentials.authorization() for _ in range(100)))
    assert set(found) == {"Bearer 1"}
    assert source.runs == 1


async def test_others_go_on_with_the_old_one_during_a_renewal() -> None:
    """Only the request that finds it old waits."""
    credentials = RenewedCredentials(Numbered())
    await credentials.authorization()
    await asyncio.sleep(60)
    renewing = asyncio.create_task(credentials.authorization())
    await asyncio.sleep(0.1)
    started = asyncio.get_running_loop().time()
    assert await credentials.authorization() == "Bearer 1"
    assert asyncio.get_running_loop().time() == started
    assert await renewing == "Bearer 2"


async def test_a_slow_renewal_holds_nobody_up_and_is_not_cut() -> None:
    """A Lease is renewed by the old one while a plugin takes longer than each of its attempts."""
    source = Numbered(life=30.0, takes=7.0)
    credentials = RenewedCredentials(source)
    await credentials.authorization()
    await asyncio.sleep(30)
    now = asyncio.get_running_loop().time
    begun, used = now(), []
    while now() < begun + 12:
        async with asyncio.timeout(1.5):
            used.append((await credentials.authorization(), round(now() - begun)))
        await asyncio.sleep(2)
    assert used == [
        *((f"Bearer {1}", at) for at in (1, 3, 5)),
        *((f"Bearer {2}", at) for at in (7, 9, 11)),
    ]
    assert source.runs == 2


async def test_a_slow_renewal_after_a_refusal_outlives_who_waits_for_it() -> None:
    """Requests that are refused meanwhile end by their deadlines; the renewal does not."""
    source = Numbered(takes=7.0)
    credentials = RenewedCredentials(source)
    used = await credentials.authorization()
    await asyncio.sleep(10)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await credentials.refused(used)
    assert await credentials.refused(used)
    assert await credentials.authorization() == "Bearer 2"
    assert (source.runs, source.refusals) == (2, 1)


async def test_a_slow_failure_is_followed_by_its_pause() -> None:
    """The pause counts from the failure, or a plugin that hangs would always run."""
    source = Numbered(takes=20.0)
    credentials = RenewedCredentials(source, Credential("Bearer 0", seconds=0.0))
    source.broken = True
    for _ in range(29):
        assert await credentials.authorization() == "Bearer 0"
        await asyncio.sleep(1)
    assert source.runs == 1


async def test_a_renewal_ends_when_it_is_closed() -> None:
    """A renewal that is under way ends; who waits for it is told."""
    source = Numbered(takes=20.0)
    credentials = RenewedCredentials(source)
    waiting = asyncio.create_task(credentials.authorization())
    await asyncio.sleep(1)
    before = asyncio.all_tasks()
    await credentials.close()
    with pytest.raises(
        KubeconfigError,
        match=r"the source gave nothing: .* was cancelled, .*: close a client after",
    ):
        await waiting
    assert {task.get_name() for task in before - asyncio.all_tasks()} > {"credentials"}
    await credentials.close()


async def test_who_shares_what_was_closed_has_it_renewed() -> None:
    """Clients of one configuration are closed one by one; the others' next request begins anew."""
    source = Numbered(takes=20.0)
    credentials = RenewedCredentials(source, Credential("Bearer 0", seconds=0.0))
    assert await credentials.authorization() == "Bearer 0"
    await credentials.close()
    assert await credentials.authorization() == "Bearer 0"
    await asyncio.sleep(20)
    assert await credentials.authorization() == "Bearer 2"


@pytest.mark.parametrize("first", [None, Credential("Bearer 0", seconds=0.0)])
async def test_a_source_that_hangs_once_is_asked_again(
    first: Credential | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A renewal has a deadline of its own, or all later requests would wait for it, too."""
    source = Numbered(takes=math.inf)
    credentials = RenewedCredentials(source, first)
    if first is None:
        with pytest.raises(KubeconfigError, match=r"the source gave nothing within 25 s: look"):
            await credentials.authorization()
    else:
        assert not await credentials.refused("Bearer 0")
        assert "the old ones stay: the source gave nothing within 25 s" in caplog.text
    source.takes = 0.5
    await asyncio.sleep(10)
    assert await credentials.authorization() == "Bearer 2"


async def test_a_bug_of_a_source_leaves_the_old_ones(caplog: pytest.LogCaptureFixture) -> None:
    """What was good stays in use; where it is, is told, not its text: that may hold a token."""

    class Broken:
        def __str__(self) -> str:
            return "the broken one"

        async def renew(self, *, refused: bool) -> Credential:
            raise ZeroDivisionError(f"a secret {refused}")

    credentials = RenewedCredentials(Broken(), Credential("Bearer old", seconds=0.0))
    assert await credentials.authorization() == "Bearer old"
    place = rf"the broken one can't be asked \(ZeroDivisionError in {__name__}:\d+ < rws_operator"
    assert re.search(f"the old ones stay: {place}", caplog.text)
    with pytest.raises(KubeconfigError, match=place) as caught:
        await RenewedCredentials(Broken()).authorization()
    shown = "".join(traceback.format_exception(caught.value))
    assert "secret" not in caplog.text + shown


async def test_no_waiter_adds_to_the_traceback_of_another() -> None:
    """One failure is told to all who waited, as an error of each one's own."""
    source = Numbered()
    source.broken = True
    credentials = RenewedCredentials(source)
    found = await asyncio.gather(
        *(credentials.authorization() for _ in range(5)), return_exceptions=True
    )
    errors = [one for one in found if isinstance(one, KubeconfigError)]
    assert len(set(map(id, errors))) == 5
    assert len({len([*traceback.walk_tb(error.__traceback__)]) for error in errors}) == 1


async def test_a_stale_one_beats_none(caplog: pytest.LogCaptureFixture) -> None:
    """While it can't be renewed the old one stays, and the source is left alone for a while."""
    source = Numbered()
    credentials = RenewedCredentials(source)
    await credentials.authorization()
    source.broken = True
    await asyncio.sleep(60)
    for _ in range(5):
        assert await credentials.authorization() == "Bearer 1"
    assert source.runs == 2
    assert "the old ones stay: run 2 failed" in caplog.text
    source.broken = False
    await asyncio.sleep(10)
    assert await credentials.authorization() == "Bearer 3"


async def test_a_failure_speaks_for_all_who_waited() -> None:
    """With nothing to fall back on, one failed run fails those who waited for it, not one each."""
    source = Numbered()
    source.broken = True
    credentials = RenewedCredentials(source)
    found = await asyncio.gather(
        *(credentials.authorization() for _ in range(10)), return_exceptions=True
    )
    assert [str(one) for one in found] == ["run 1 failed"] * 10
    source.broken = False
    assert await credentials.authorization() == "Bearer 2"


@pytest.mark.behaviour("S7")
async def test_a_storm_of_refusals_causes_one_renewal() -> None:
    """All requests that were refused with the same token go on with the next."""
    source = Numbered()
    credentials = RenewedCredentials(source)
    used = await credentials.authorization()
    await asyncio.sleep(6)
    again = await asyncio.gather(*(credentials.refused(used) for _ in range(50)))
    assert all(again)
    assert (source.runs, source.refusals) == (2, 1)
    assert await credentials.refused(used), "refused late, with the token before"
    assert source.runs == 2


async def test_a_token_that_is_refused_at_once_is_not_renewed_again_and_again() -> None:
    """A server that refuses every token does not make the plugin run for each request."""
    source = Numbered()
    credentials = RenewedCredentials(source)
    for _ in range(20):
        used = await credentials.authorization()
        await credentials.refused(used)
    assert source.runs == 1


async def test_a_request_that_gives_up_leaves_the_renewal_to_the_next() -> None:
    """Else a source that is slower than every deadline would never be heard."""
    source = Numbered()
    credentials = RenewedCredentials(source)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await credentials.authorization()
    assert await credentials.authorization() == "Bearer 1"


async def test_a_renewal_that_somebody_cancels_leaves_the_next_one_free() -> None:
    """A handler may cancel every task that there is."""
    source = Numbered()
    credentials = RenewedCredentials(source)
    await credentials.authorization()
    await asyncio.sleep(60)
    waiting = asyncio.create_task(credentials.authorization())
    await asyncio.sleep(0.1)
    for task in asyncio.all_tasks() - {asyncio.current_task(), waiting}:
        task.cancel()
    assert await waiting == "Bearer 1"
    assert await credentials.authorization() == "Bearer 3"


async def test_a_file_is_read_again(tmp_path: Path) -> None:
    """A token file's content is stripped, and read anew."""
    path = tmp_path / "token"
    path.write_text("one\n")
    file = TokenFile(path)
    assert file.read() == Credential("Bearer one", seconds=60)
    path.write_text("  two  ")
    assert file.read().authorization == "Bearer two"


@pytest.mark.parametrize("content", ["", "two words", "two\nlines", "tökén"])
def test_a_file_without_a_token(tmp_path: Path, content: str) -> None:
    """The error names the file and does not show its text."""
    path = tmp_path / "token"
    path.write_text(content)
    with pytest.raises(KubeconfigError, match="write the bare token") as caught:
        TokenFile.credentials(path)
    assert str(path) in str(caught.value)
    assert not content or content not in str(caught.value)
