"""What is written into a kubeconfig after a refresh, and what kubectl reads there."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from rws_operator.client import kept_tokens
from rws_operator.client.kept_tokens import KeptTokens, Tokens
from rws_operator.client.kubeconfig_entry import Entry
from rws_operator.errors import KubeconfigError
from tests.client.paths import kubectl

AWKWARD = ("7e10", "on", "yes", "null", "~", "0o17", "0x1f", "1_000", "1:30", "2001-01-01", "=")
SPACED = ("", " a  b ", "a\nb\n\n  c\n", "ä€😀\u2028", '"\\\t', "a: b # c", "---", "x y " * 60)

BEGINNING = """\
# Ours, and nobody else's.
apiVersion: v1
kind: Config
clusters: []
on: {yes: 2001-01-01, 7: 0o17}   # as it was
users:
- {name: other, user: {token: "7e10"}}
- name: u
  user:
    token: '1_000'
    auth-provider:
      name: oidc
      config:
"""
END = """
        client-secret: "7e10"
        client-id: '~'  # not null
        idp-issuer-url: |-
          on
---
apiVersion: v1
kind: Config
"""

FORMS = {
    "plain": ("        id-token: {}\n        refresh-token: {} # r", "a.b.c", "r1"),
    "quoted": ("        'id-token': {}\n        refresh-token: {} # r", "'a''b'", '"r\\n1"'),
    "folded": (
        "        id-token: {}\n        refresh-token: {}",
        "a\n          b",
        ">-\n         r",
    ),
    "empty": ("        id-token:{}\n        refresh-token: {}", "", "r1"),
}


def kept(file: Path) -> KeptTokens:
    """Return the tokens of the user u."""
    return KeptTokens(Entry(file, "users[u]", {}))


async def kubectls_users(file: Path) -> list[dict[str, Any]]:
    """Return the users that kubectl reads."""
    options = ("config", "view", "--raw", "-o", "json")
    code, printed = await kubectl("--kubeconfig", str(file), *options)
    assert code == 0, printed
    return list(json.loads(printed)["users"])


@pytest.mark.parametrize("form", FORMS)
async def test_only_the_tokens_are_exchanged(tmp_path: Path, form: str) -> None:
    """Comments, other values and further documents stay, and kubectl reads all of it."""
    template, *old = FORMS[form]
    file = tmp_path / "config"
    file.write_text(BEGINNING + template.format(*old) + END)
    kept(file).write(Tokens("7e10", "on"))
    new = [' "7e10"' if not old[0] else '"7e10"', '"on"']
    assert file.read_text() == BEGINNING + template.format(*new) + END
    other, ours = await kubectls_users(file)
    assert other["user"] == {"token": "7e10"}
    assert ours["user"]["token"] == "1_000"
    assert ours["user"]["auth-provider"]["config"] == {
        "id-token": "7e10",
        "refresh-token": "on",
        "client-secret": "7e10",
        "client-id": "~",
        "idp-issuer-url": "on",
    }


@pytest.mark.parametrize("form", ["block", "flow", "JSON"])
async def test_an_id_token_where_none_was(tmp_path: Path, form: str) -> None:
    """It is put before the other fields, in the form that the file has."""
    file = tmp_path / "config"
    config = {"block": '\n     refresh-token: "r"', "flow": "{refresh-token: r}"}.get(form, "")
    provider = f"\n    name: oidc\n    config: {config}\n"
    file.write_text(f"users:\n- name: u\n  user:\n   auth-provider:{provider}")
    if form == "JSON":
        user = {"auth-provider": {"name": "oidc", "config": {"refresh-token": "r"}}}
        file.write_text(json.dumps({"users": [{"name": "u", "user": user}]}))
    kept(file).write(Tokens("i", "r2"))
    assert kept(file).read() == Tokens("i", "r2")
    (ours,) = await kubectls_users(file)
    assert ours["user"]["auth-provider"]["config"] == {"id-token": "i", "refresh-token": "r2"}
    if form == "JSON":
        assert json.loads(file.read_text())["users"] == [ours]


async def test_kubectl_reads_the_same_tokens(tmp_path: Path) -> None:
    """Whatever an issuer gives is text to both, also what YAML takes for something else."""
    file = tmp_path / "config"
    file.write_text(BEGINNING + "        id-token: i\n        refresh-token: r" + END)
    for token in AWKWARD + SPACED:
        kept(file).write(Tokens(f"{token}", f"x{token}"))
        assert kept(file).read() == Tokens(token or None, f"x{token}")
        config = (await kubectls_users(file))[1]["user"]["auth-provider"]["config"]
        assert (config["id-token"], config["refresh-token"]) == (token, f"x{token}")


@pytest.mark.parametrize(
    "user",
    [
        "{auth-provider: {config: {id-token: &t i, refresh-token: *t}}}",
        "{auth-provider: {config: {id-token: i, id-token: j, refresh-token: r}}}",
        "{<<: {auth-provider: {config: {id-token: i, refresh-token: r}}}}",
    ],
)
def test_tokens_that_can_not_be_exchanged_alone(tmp_path: Path, user: str) -> None:
    """The file stays as it is where another value would change too; the error says what to do."""
    file = tmp_path / "config"
    text = f"users:\n- name: u\n  user: {user}\n"
    file.write_text(text)
    expected = r"users\[u\] holds tokens that can't be exchanged alone: log in again by kubectl, or"
    with pytest.raises(KubeconfigError, match=expected):
        kept(file).write(Tokens("i2", "r2"))
    assert file.read_text() == text
    assert os.listdir(tmp_path) == ["config"]


def test_owner_and_mode_stay(tmp_path: Path) -> None:
    """A file that root writes under sudo is still its owner's, who could not read it else."""
    file = tmp_path / "config"
    file.write_text(BEGINNING + "        refresh-token: r" + END)
    file.chmod(0o640)
    owner = (1234, 2345) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(file, *owner)
    kept(file).write(Tokens("i", "r2"))
    found = file.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (*owner, 0o640)


@pytest.mark.parametrize("hindrance", ["a group that is not ours", "a file mounted alone"])
def test_a_file_whose_place_nothing_can_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hindrance: str
) -> None:
    """It is written in place, as kubectl does it, and is the same file still."""
    file = tmp_path / "config"
    file.write_text(BEGINNING + "        refresh-token: r" + "1" * 100 + END)
    before = file.stat()
    real = Path.stat

    def stat(path: Path, **options: Any) -> os.stat_result:
        found = real(path, **options)
        return os.stat_result((*found[:4], 1234, 2345, *found[6:])) if path == file else found

    if hindrance == "a file mounted alone":
        monkeypatch.setattr(Path, "replace", _refuse)
    else:
        monkeypatch.setattr(Path, "stat", stat)
        monkeypatch.setattr(os, "chown", _refuse)
    kept(file).write(Tokens("i", "r2"))
    expected = BEGINNING + '        "id-token": "i"\n        refresh-token: "r2"' + END
    assert file.read_text() == expected
    after = real(file)
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert os.listdir(tmp_path) == ["config"]


def _refuse(*arguments: Any) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_a_lock_that_was_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the lock file and what to do with it."""
    monkeypatch.setattr(kept_tokens, "_LOCK_SECONDS", 0.1)
    file = tmp_path / "config"
    file.write_text(BEGINNING + "        refresh-token: r" + END)
    lock = tmp_path / "config.lock"
    lock.touch()
    with pytest.raises(KubeconfigError, match=f"^{lock} is there.*: remove it if none does$"):
        kept(file).write(Tokens("i", "r2"))
    assert lock.exists()


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    """A program such as kubectl holds it while it writes the file, no longer."""
    file = tmp_path / "config"
    file.write_text(BEGINNING + "        refresh-token: r" + END)
    lock = tmp_path / "config.lock"
    lock.touch()
    other = threading.Timer(0.2, lock.unlink)
    other.start()
    kept(file).write(Tokens("i", "r2"))
    other.join()
    assert kept(file).read() == Tokens("i", "r2")
    assert os.listdir(tmp_path) == ["config"]


def test_a_link_is_locked_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There client-go looks for a lock; what the link leads to is replaced, not the link."""
    monkeypatch.setattr(kept_tokens, "_LOCK_SECONDS", 0.1)
    target, file = tmp_path / "far" / "real", tmp_path / "config"
    target.parent.mkdir()
    target.write_text(BEGINNING + "        refresh-token: r" + END)
    file.symlink_to(target)
    lock = tmp_path / "config.lock"
    lock.touch()
    with pytest.raises(KubeconfigError, match=f"^{lock} is there"):
        kept(file).write(Tokens("i", "r2"))
    lock.unlink()
    kept(file).write(Tokens("i", "r2"))
    assert file.is_symlink()
    assert kept(target).read() == Tokens("i", "r2")
    assert os.listdir(target.parent) == ["real"]
