"""OIDC users: the id token of the kubeconfig, and how it is refreshed at its issuer."""

import asyncio
import base64
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from rws_operator.client import kept_tokens, load_config, oidc
from rws_operator.client.credentials import Credentials
from rws_operator.errors import KubeconfigError
from rws_operator.testing.pki import CertificateAuthority
from tests.client.issuer import CLIENT_SECRET, issuing
from tests.client.scripted import ScriptedServer, ok, scripted_server, serving
from tests.client.test_kubeconfig import write


def id_token(name: str, life: float) -> str:
    """Return an unsigned JWT that expires after so many seconds."""
    claims = json.dumps({"sub": name, "exp": int(time.time() + life)}).encode()
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.{name}"


def credentials(path: Path, **config: str) -> Credentials:
    """Return the credentials of a kubeconfig with that provider."""
    user = {"auth-provider": {"name": "oidc", "config": {"client-id": "kube"} | config}}
    return load_config(write(path / "config", user=user)).credentials


def tokens(server: ScriptedServer, answer: Any) -> None:
    """Let a server be an issuer that gives one answer to each refresh."""
    discovery = ok({"token_endpoint": f"{server.address}/token"})
    server.answer(discovery, ok(answer), discovery, ok(answer))


async def test_a_token_that_lives_is_used(tmp_path: Path) -> None:
    """No issuer is asked while the id token is good."""
    token = id_token("good", 3600)
    config = {"id-token": token, "refresh-token": "r", "idp-issuer-url": "http://127.0.0.1:1"}
    assert await credentials(tmp_path, **config).authorization() == f"Bearer {token}"


async def test_an_expired_token_is_refreshed(server: ScriptedServer, tmp_path: Path) -> None:
    """The refresh token buys a new id token, and is itself replaced."""
    fresh = id_token("fresh", 3600)
    tokens(server, {"id_token": fresh, "refresh_token": "r2"})
    config = {
        "id-token": id_token("old", -10),
        "refresh-token": "r1",
        "client-secret": "s/1",
        "idp-issuer-url": server.address,
    }
    found = credentials(tmp_path, **config)
    assert await found.authorization() == f"Bearer {fresh}"
    assert await found.authorization() == f"Bearer {fresh}"
    discovery, refresh = server.seen[:2]
    assert discovery.target == "/.well-known/openid-configuration"
    assert refresh.body == b"grant_type=refresh_token&refresh_token=r1"
    pair = base64.b64decode(refresh.headers["Authorization"].removeprefix("Basic "))
    assert pair == b"kube:s%2F1"
    found._hear_refusals_at = 0.0  # type: ignore[attr-defined]
    await found.refused(f"Bearer {fresh}")
    assert server.seen[3].body == b"grant_type=refresh_token&refresh_token=r2"


async def test_a_refused_token_is_refreshed(server: ScriptedServer, tmp_path: Path) -> None:
    """A 401 refreshes a token that had not expired; a public client names itself in the form."""
    old, fresh = id_token("old", 3600), id_token("fresh", 3600)
    tokens(server, {"id_token": fresh})
    config = {"id-token": old, "refresh-token": "r1", "idp-issuer-url": server.address}
    found = credentials(tmp_path, **config)
    used = await found.authorization()
    found._hear_refusals_at = 0.0  # type: ignore[attr-defined]
    assert await found.refused(used)
    assert await found.authorization() == f"Bearer {fresh}"
    assert server.seen[1].body == b"grant_type=refresh_token&refresh_token=r1&client_id=kube"


async def test_a_secret_that_is_wanted_in_the_form(server: ScriptedServer, tmp_path: Path) -> None:
    """An issuer that does not look at the header is asked once more, as kubectl does."""
    fresh = id_token("fresh", 3600)
    refusal = web.json_response({"error": "invalid_client"}, status=401)
    server.answer(ok({"token_endpoint": f"{server.address}/token"}), refusal)
    server.answer(ok({"id_token": fresh}))
    config = {
        "refresh-token": "r1",
        "client-secret": "s1",
        "idp-issuer-url": server.address,
    }
    assert await credentials(tmp_path, **config).authorization() == f"Bearer {fresh}"
    expected = b"grant_type=refresh_token&refresh_token=r1&client_id=kube&client_secret=s1"
    assert server.seen[2].body == expected
    assert "Authorization" not in server.seen[2].headers


@pytest.mark.parametrize("token", ["no-jwt", "a.e30.c", "a.!.c"])
async def test_a_token_that_does_not_say_when_it_expires(
    server: ScriptedServer, tmp_path: Path, token: str
) -> None:
    """It is refreshed, as kubectl does: nobody knows how old it is."""
    fresh = id_token("fresh", 3600)
    tokens(server, {"id_token": fresh})
    config = {"id-token": token, "refresh-token": "r1", "idp-issuer-url": server.address}
    assert await credentials(tmp_path, **config).authorization() == f"Bearer {fresh}"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"error": "invalid_grant", "hidden": "hidden"}, r"gave no id token \(invalid_grant\)"),
        ({"error": "hidden: Hidden"}, r"gave no id token \(an error of its own\)"),
        (["hidden"], r"gave no token \(status 200\): check the address"),
        ({"hidden": "hidden"}, r"gave no id token \(status 200, no error either\): log in again"),
    ],
)
async def test_an_issuer_that_refuses(
    server: ScriptedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: Any,
    expected: str,
) -> None:
    """The error names the issuer, in one line and without what was sent or came."""
    monkeypatch.setattr(oidc, "_LOOK_SECONDS", (0.0,))
    server.answer(ok({"token_endpoint": f"{server.address}/token"}), ok(answer))
    config = {
        "refresh-token": "hidden",
        "client-secret": "hidden",
        "idp-issuer-url": server.address,
    }
    with pytest.raises(KubeconfigError, match=expected) as caught:
        await credentials(tmp_path, **config).authorization()
    message = str(caught.value)
    assert f"users[u].auth-provider.config.idp-issuer-url {server.address}" in message
    assert "\n" not in message
    assert "hidden" not in message


@pytest.mark.parametrize("body", [b"<html>hidden", b"{}", b'{"error": 7}', b"[" * 100_000])
@pytest.mark.parametrize("is_discovery", [True, False])
async def test_an_issuer_that_is_not_there(
    server: ScriptedServer, tmp_path: Path, is_discovery: bool, body: bytes
) -> None:
    """The error names the status, which says more than how its body could not be read."""
    if not is_discovery:
        server.answer(ok({"token_endpoint": f"{server.address}/token"}))
    server.answer(web.Response(status=404, body=body))
    found = credentials(tmp_path, **{"refresh-token": "r1", "idp-issuer-url": server.address})
    name = "token_endpoint" if is_discovery else "(id )?token"
    expected = rf"{server.address} gave no {name} \(status 404.*\): check the address"
    with pytest.raises(KubeconfigError, match=expected) as caught:
        await found.authorization()
    assert "hidden" not in str(caught.value)


def issuer_over_tls(server: ScriptedServer, authority: CertificateAuthority) -> dict[str, str]:
    """Return the config of a user whose issuer is that server."""
    ca = base64.b64encode(authority.cert_pem).decode()
    config = {"idp-issuer-url": server.address, "idp-certificate-authority-data": ca}
    return config | {"refresh-token": "r1", "client-secret": "s1"}


@pytest.mark.parametrize("way", ["named", "there", "there and back"])
async def test_no_secret_goes_in_clear(server: ScriptedServer, tmp_path: Path, way: str) -> None:
    """An issuer with TLS may not name an endpoint without, nor be asked for one without."""
    authority = CertificateAuthority()
    async with scripted_server(serving(authority)) as issuer:
        there = web.Response(status=302, headers={"Location": f"{server.address}/x"})
        back = web.Response(status=302, headers={"Location": f"{issuer.address}/y"})
        named = ok({"token_endpoint": f"{issuer.address}/token"})
        match way:
            case "named":
                issuer.answer(ok({"token_endpoint": f"{server.address}/token"}))
            case "there":
                issuer.answer(there)
                server.answer(named)
            case _:
                issuer.answer(there, named)
                server.answer(back)
        found = credentials(tmp_path, **issuer_over_tls(issuer, authority))
        with pytest.raises(KubeconfigError, match="leads to a token_endpoint without TLS: have"):
            await found.authorization()
        assert "POST" not in [seen.method for seen in server.seen + issuer.seen]


async def test_a_form_is_not_sent_on(server: ScriptedServer, tmp_path: Path) -> None:
    """A redirect of the refresh would send secret and refresh token to whom it names."""
    authority = CertificateAuthority()
    async with scripted_server(serving(authority)) as issuer:
        issuer.answer(ok({"token_endpoint": f"{issuer.address}/token"}))
        issuer.answer(web.Response(status=307, headers={"Location": server.address}))
        found = credentials(tmp_path, **issuer_over_tls(issuer, authority))
        with pytest.raises(KubeconfigError, match=r"gave no token \(status 307\)"):
            await found.authorization()
        assert server.seen == []


async def test_an_expired_token_without_a_refresh_token(tmp_path: Path) -> None:
    """There is nothing to do but to log in again."""
    config = {"id-token": id_token("old", -10), "idp-issuer-url": "https://127.0.0.1:1"}
    with pytest.raises(KubeconfigError, match="refresh-token is not set: log in again"):
        await credentials(tmp_path, **config).authorization()


async def test_the_issuers_certificate_is_verified(tmp_path: Path) -> None:
    """Nothing is sent to an issuer that is not trusted; its own authority makes it so."""
    authority = CertificateAuthority()
    fresh = id_token("fresh", 3600)
    async with scripted_server(serving(authority)) as server:
        tokens(server, {"id_token": fresh})
        config = {"refresh-token": "r1", "idp-issuer-url": server.address}
        with pytest.raises(KubeconfigError, match=r"is not trusted .*: correct idp-certificate"):
            await credentials(tmp_path, **config).authorization()
        assert server.seen == []
        trusted = credentials(
            tmp_path,
            **config,
            **{"idp-certificate-authority-data": base64.b64encode(authority.cert_pem).decode()},
        )
        assert await trusted.authorization() == f"Bearer {fresh}"


@pytest.mark.parametrize("is_near", [False, True])
async def test_the_way_to_the_issuer(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_near: bool
) -> None:
    """It goes through the same proxies as to an API server, and no password of ~/.netrc does."""
    issuer = server.address if is_near else "http://issuer.example.com"
    proxy = "http://127.0.0.1:1" if is_near else server.address
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, proxy)
    (tmp_path / "netrc").write_text("default login jane password hidden\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    fresh = id_token("fresh", 3600)
    server.answer(ok({"token_endpoint": f"{issuer}/token"}), ok({"id_token": fresh}))
    config = {"refresh-token": "r1", "client-secret": "s", "idp-issuer-url": issuer}
    assert await credentials(tmp_path, **config).authorization() == f"Bearer {fresh}"
    discovery, refresh = server.seen
    assert "Authorization" not in discovery.headers
    assert refresh.headers["Authorization"] == f"Basic {base64.b64encode(b'kube:s').decode()}"
    beginning = "" if is_near else issuer
    assert [discovery.target, refresh.target] == [
        f"{beginning}/.well-known/openid-configuration",
        f"{beginning}/token",
    ]


async def test_a_proxy_that_is_none_costs_no_good_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The issuer can't be asked then, and the log says why."""
    monkeypatch.setenv("HTTPS_PROXY", "socks5://p:1")
    token = id_token("good", 3600)
    config = {"refresh-token": "r1", "idp-issuer-url": "https://issuer.example.com"}
    found = credentials(tmp_path, **config, **{"id-token": token})
    assert await found.authorization() == f"Bearer {token}"
    found._hear_refusals_at = 0.0  # type: ignore[attr-defined]
    assert not await found.refused(f"Bearer {token}")
    assert await found.authorization() == f"Bearer {token}"
    assert "HTTPS_PROXY of the environment is no address" in caplog.text


def kept(path: Path) -> dict[str, str]:
    """Return the tokens in a kubeconfig."""
    config = yaml.safe_load(path.read_text())["users"][0]["user"]["auth-provider"]["config"]
    return {name: config.get(name) for name in ("id-token", "refresh-token")}


async def test_refreshed_tokens_are_kept(server: ScriptedServer, tmp_path: Path) -> None:
    """The refresh token may be good once only: kubectl and the next run need the next one."""
    fresh = id_token("fresh", 3600)
    tokens(server, {"id_token": fresh, "refresh_token": "r2"})
    config = {"refresh-token": "r1", "idp-issuer-url": server.address}
    found = credentials(tmp_path, **config)
    path = tmp_path / "config"
    path.chmod(0o640)
    before = yaml.safe_load(path.read_text())
    assert await found.authorization() == f"Bearer {fresh}"
    assert kept(path) == {"id-token": fresh, "refresh-token": "r2"}
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["config"]
    after = yaml.safe_load(path.read_text())
    before["users"][0]["user"]["auth-provider"]["config"].update(kept(path))
    assert after == before
    # The next run has nothing to refresh.
    assert await load_config(path).credentials.authorization() == f"Bearer {fresh}"
    assert len(server.seen) == 2


async def test_what_another_program_refreshed_is_used(
    server: ScriptedServer, tmp_path: Path
) -> None:
    """The refresh token of this process is worth nothing by then; nobody is asked."""
    config = {"id-token": id_token("old", -10), "refresh-token": "r1"}
    found = credentials(tmp_path, **config, **{"idp-issuer-url": server.address})
    fresh = id_token("fresh", 3600)
    path = tmp_path / "config"
    path.write_text(path.read_text().replace(config["id-token"], fresh).replace("r1", "r2"))
    assert await found.authorization() == f"Bearer {fresh}"
    assert server.seen == []
    # Once that one is refused, its refresh token is used.
    tokens(server, {"id_token": id_token("newer", 3600)})
    found._hear_refusals_at = 0.0  # type: ignore[attr-defined]
    assert await found.refused(f"Bearer {fresh}")
    assert server.seen[1].body == b"grant_type=refresh_token&refresh_token=r2&client_id=kube"


async def test_two_programs_that_refresh_at_once(tmp_path: Path) -> None:
    """The one that comes too late with the refresh token takes what the other got for it."""
    authority = CertificateAuthority()
    with issuing(authority) as issuer:
        config = {
            "refresh-token": issuer.refresh_token(),
            "client-secret": CLIENT_SECRET,
            "idp-issuer-url": issuer.address,
            "idp-certificate-authority-data": base64.b64encode(authority.cert_pem).decode(),
        }
        both = [credentials(tmp_path, **config) for _ in range(2)]
        one, other = await asyncio.gather(*[each.authorization() for each in both])
        asked = [form["refresh_token"] for form in issuer.asked]
    assert asked == [config["refresh-token"]] * 2
    assert one == other == f"Bearer {kept(tmp_path / 'config')['id-token']}"


@pytest.mark.parametrize("hindrance", ["locked", "gone", "another user"])
async def test_tokens_that_cannot_be_kept(
    server: ScriptedServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    hindrance: str,
) -> None:
    """They stay in this process, and a warning says so, without them."""
    monkeypatch.setattr(kept_tokens, "_LOCK_SECONDS", 0.1)
    tokens(server, {"id_token": id_token("fresh", 3600), "refresh_token": "hidden2"})
    config = {"refresh-token": "hidden1", "idp-issuer-url": server.address}
    found = credentials(tmp_path, **config)
    path = tmp_path / "config"
    content = path.read_text()
    if hindrance == "locked":
        (tmp_path / "config.lock").touch()
    elif hindrance == "gone":
        path.unlink()
    else:
        path.write_text(content.replace("name: u", "name: x"))
    assert await found.authorization() is not None
    assert f"can't be kept in the kubeconfig, other programs may have to log in again: {path}" in (
        caplog.text
    )
    assert "hidden" not in caplog.text
    assert ("config.lock is there" in caplog.text) == (hindrance == "locked")
    found._hear_refusals_at = 0.0  # type: ignore[attr-defined]
    await found.refused(await found.authorization())
    assert server.seen[3].body.startswith(b"grant_type=refresh_token&refresh_token=hidden2&")
    assert (tmp_path / "config.lock").exists() == (hindrance == "locked")
    assert path.exists() == (hindrance != "gone")
