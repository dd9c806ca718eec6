"""TLS: which files are asked for, who is believed under which name, and who is let in by a certificate."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientConnectorCertificateError, ClientError, ClientSession, TCPConnector, web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from router.process.access import Access
from router.process.client import failure, is_refusal, open_session
from router.process.tls import CA, CERT, CLIENT_CA, KEY, NAMES, Tls, found_by_name, tls_from_environment
from router.protocol.errors import SettingsError
from server.app.discovery import Address, Discovery, Target, parse_target, resolve
from tests.tidy.tree import ROOT
from tests.unit.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def other(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "other")


class Site:
    """A process that listens by TLS, and notes who has got through."""

    def __init__(self, server: TestServer, asked: list[str]) -> None:
        self.url = f"https://127.0.0.1:{server.port}"
        self.asked = asked

    async def get(self, tls: Tls) -> str:
        async with open_session(10.0, Access(None), tls) as session:
            return await ask(session, self.url)


async def ask(session: ClientSession, url: str) -> str:
    async with session.get(f"{url}/health") as response:
        return await response.text()


@asynccontextmanager
async def listening(tls: Tls) -> AsyncIterator[Site]:
    asked: list[str] = []

    async def health(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/health", health)
    server = TestServer(app, host="127.0.0.1")
    await server.start_server(ssl=tls.server_context())
    try:
        yield Site(server, asked)
    finally:
        await server.close()


# -- files --------------------------------------------------------------------------------------------


def test_without_files_there_is_no_tls() -> None:
    assert Tls().server_context() is None
    assert (Tls().kind, Tls().dials, tls_from_environment()) == ("off", False, Tls())


def test_the_environment_names_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ((CERT, "a"), (KEY, "b"), (CA, "c"), (CLIENT_CA, "d")):
        monkeypatch.setenv(name, value)
    assert tls_from_environment() == Tls("a", "b", "c", "d")
    assert tls_from_environment().kind == "mutual"


def test_certificates_are_asked_for_by_who_has_an_authority_for_them(authority: Authority) -> None:
    own = authority.sign("127.0.0.1")
    plain, mutual = Tls(own).server_context(), Tls(own, client_ca=authority.file).server_context()
    assert plain is not None and mutual is not None
    assert (plain.verify_mode, mutual.verify_mode) == (ssl.CERT_NONE, ssl.CERT_REQUIRED)
    dialling = Tls(ca=authority.file).client_context()
    assert dialling.verify_mode is ssl.CERT_REQUIRED and dialling.check_hostname
    for context in (plain, mutual, dialling):
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"key": "k"}, f"{KEY} = k: expected a certificate too: --tls-cert or {CERT}"),
        ({"client_ca": "c"}, f"{CLIENT_CA} = c: expected a certificate too"),
        ({"cert": "none"}, f"{CERT} = none: expected a certificate and its private key.*: No such file"),
        ({"cert": "OWN", "key": "none"}, f"{KEY} = none: .*: No such file"),
        ({"cert": "CA"}, f"{CERT} = .*ca.pem: expected a certificate and its private key"),
        ({"cert": "OWN", "key": "LOCKED"}, "its private key, without a password"),
        ({"cert": "OWN", "client_ca": "none"}, f"{CLIENT_CA} = none: expected certificates of authorities.*: No such"),
        ({"cert": "OWN", "client_ca": "TEXT"}, f"{CLIENT_CA} = .*: expected certificates of authorities in PEM"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_named(
    authority: Authority, tmp_path: Path, files: dict[str, str], message: str
) -> None:
    (tmp_path / "text").write_text("no certificate")
    locked = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"a password")
    )
    (tmp_path / "locked").write_bytes(locked)
    there = {"OWN": authority.sign("127.0.0.1"), "CA": authority.file, "TEXT": str(tmp_path / "text"),
             "LOCKED": str(tmp_path / "locked")}  # fmt: skip
    tls = Tls(**{name: there.get(file, file) for name, file in files.items()})
    with pytest.raises(SettingsError, match=message):
        tls.server_context()


# -- names ----------------------------------------------------------------------------------------------


async def test_an_address_is_believed_if_its_certificate_is_for_it(authority: Authority, other: Authority) -> None:
    async with listening(Tls(authority.sign("127.0.0.1"))) as site:
        assert await site.get(Tls(ca=authority.file)) == "ok"
        with pytest.raises(ClientConnectorCertificateError) as error:
            await site.get(Tls(ca=other.file))
    assert is_refusal(error.value) and "CERTIFICATE_VERIFY_FAILED" in failure(error.value)
    assert site.asked == ["/health"]


async def test_an_address_that_was_found_by_name_is_believed_under_that_name_alone(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust = Tls(ca=authority.file)
    monkeypatch.setenv(CA, authority.file)
    monkeypatch.setenv(NAMES, "")
    async with listening(Tls(authority.sign("router.example"))) as site:
        found_by_name("server.example", ["127.0.0.1", "127.0.0.2"])
        with pytest.raises(ClientConnectorCertificateError):
            await site.get(trust)
        found_by_name("router.example", ["127.0.0.1"])
        assert await site.get(trust) == "ok"
        found_by_name("server.example", [])  # where it led to before is forgotten
        assert os.environ[NAMES] == "127.0.0.1=router.example"  # child processes believe the same
        found_by_name("127.0.0.1", ["127.0.0.1"])
        with pytest.raises(ClientConnectorCertificateError):
            await site.get(trust)
    assert site.asked == ["/health"]


def test_what_has_no_scheme_is_dialled_by_tls_where_there_is_any(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=f"for TLS, say whom to trust: --tls-ca FILE or {CA}"):
        parse_target("https://router:1")
    assert parse_target("router") == Target("router", 8080, secure=False)
    monkeypatch.setenv(CA, "ca.pem")
    assert parse_target("router") == parse_target("https://router") == Target("router", 8080, secure=True)
    assert parse_target("http://router:9") == Target("router", 9, secure=False)
    assert Address("::1", 9, secure=True).url == "https://[::1]:9"


async def test_what_is_looked_up_is_believed_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAMES, "")
    await resolve("localhost", 1)
    assert os.environ[NAMES] == ""  # without TLS nobody asks
    monkeypatch.setenv(CA, "ca.pem")
    await resolve("localhost", 1)
    assert os.environ[NAMES] == "127.0.0.1=localhost"
    await resolve("127.0.0.2", 1)
    assert os.environ[NAMES] == "127.0.0.1=localhost"


async def test_discovery_keeps_how_a_target_is_dialled() -> None:
    seen: list[list[Address]] = []
    targets = [Target("127.0.0.1", 1, secure=True), Target("127.0.0.1", 2)]
    await Discovery(targets, seen.append, every_s=1.0).look_up()
    assert seen == [[Address("127.0.0.1", 1, secure=True), Address("127.0.0.1", 2, secure=False)]]


# -- mutual ---------------------------------------------------------------------------------------------


async def test_only_certificates_of_the_authority_are_let_in(authority: Authority, other: Authority) -> None:
    own, client = authority.sign("127.0.0.1"), authority.sign("load.example", file="client")
    strange = other.sign("load.example", file="strange")
    async with listening(Tls(own, client_ca=authority.file)) as site:
        for cert in ("", strange):
            with pytest.raises((ClientError, ConnectionError)):
                await site.get(Tls(cert, ca=authority.file))
        assert site.asked == []
        assert await site.get(Tls(client, ca=authority.file)) == "ok"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """The folder in which the recipe of SECURITY.md has made an authority and certificates."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on PATH")
    blocks = re.findall(r"```\n(.*?)```", (ROOT / "SECURITY.md").read_text(encoding="utf-8"), re.DOTALL)
    (commands,) = [block for block in blocks if "openssl req -x509" in block]
    subprocess.run(["bash", "-ec", commands], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


async def test_the_recipe_for_a_test_authority_makes_what_strict_checks_believe(recipe: Path) -> None:
    def of(name: str) -> Tls:
        return Tls(*(str(recipe / file) for file in (f"{name}.pem", f"{name}.key", "ca.pem", "ca.pem")))

    async with listening(of("router")) as site:
        context = of("load").client_context()
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # as newer Pythons have it
        async with ClientSession(connector=TCPConnector(ssl=context)) as session:
            assert await ask(session, site.url) == "ok"


async def test_plain_text_is_not_understood(authority: Authority) -> None:
    async with listening(Tls(authority.sign("127.0.0.1"))) as site, ClientSession() as session:
        with pytest.raises((ClientError, ConnectionError)):
            await ask(session, site.url.replace("https", "http"))
        assert site.asked == []
