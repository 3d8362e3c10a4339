"""What is written into a kubeconfig after a refresh, and what kubectl reads there."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

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
    """The file stays as it is where another value would change too, and the error says why."""
    file = tmp_path / "config"
    text = f"users:\n- name: u\n  user: {user}\n"
    file.write_text(text)
    with pytest.raises(KubeconfigError, match=r"users\[u\] holds tokens that can't be exchanged"):
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


def test_an_owner_that_can_not_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is left alone rather than taken from its owner."""
    file = tmp_path / "config"
    file.write_text(BEGINNING + "        refresh-token: r" + END)
    before = file.read_text()
    real = Path.stat

    def stat(path: Path, **options: Any) -> os.stat_result:
        found = real(path, **options)
        return os.stat_result((*found[:4], 1234, 2345, *found[6:])) if path == file else found

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(os, "chown", _refuse)
    with pytest.raises(PermissionError):
        kept(file).write(Tokens("i", "r2"))
    assert file.read_text() == before
    assert os.listdir(tmp_path) == ["config"]


def _refuse(*arguments: Any) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_a_lock_that_was_left(tmp_path: Path) -> None:
    """The error names the lock file and what to do with it."""
    file = tmp_path / "config"
    file.write_text(BEGINNING + "        refresh-token: r" + END)
    lock = tmp_path / "config.lock"
    lock.touch()
    with pytest.raises(KubeconfigError, match=f"^{lock} is there.*: remove it if none does$"):
        kept(file).write(Tokens("i", "r2"))
    assert lock.exists()
