"""Renewed credentials: when they are renewed, and what happens when they can't be."""

import asyncio
from pathlib import Path

import pytest

from rws_operator.client.credentials import Credential, RenewedCredentials, TokenFile
from rws_operator.errors import KubeconfigError

pytestmark = pytest.mark.virtual_time


class Numbered:
    """A source whose credentials are numbered; each takes a second to get."""

    def __init__(self, life: float = 60.0) -> None:
        self.life = life
        self.runs = 0
        self.refusals = 0
        self.broken = False

    async def renew(self, *, refused: bool) -> Credential:
        """Give the next number."""
        self.runs += 1
        self.refusals += refused
        await asyncio.sleep(1)
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
    """Only the request that renews waits."""
    credentials = RenewedCredentials(Numbered())
    await credentials.authorization()
    await asyncio.sleep(60)
    renewing = asyncio.create_task(credentials.authorization())
    await asyncio.sleep(0.1)
    started = asyncio.get_running_loop().time()
    assert await credentials.authorization() == "Bearer 1"
    assert asyncio.get_running_loop().time() == started
    assert await renewing == "Bearer 2"


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


async def test_a_cancelled_renewal_leaves_the_next_one_free() -> None:
    """A request that gives up while it renews does not leave the others waiting."""
    source = Numbered()
    credentials = RenewedCredentials(source)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await credentials.authorization()
    assert await credentials.authorization() == "Bearer 2"


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
