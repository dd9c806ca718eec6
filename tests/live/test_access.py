"""Real processes with a token and mutual TLS: all parts of a cluster find one another, strangers get nothing, and
nothing that they leave behind or show holds the token."""

from __future__ import annotations

import gzip
import json
import secrets
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from router.process.access import TOKEN, TOKEN_FILE
from router.process.tls import CA, CERT, CLIENT_CA, Tls
from tests.live.lab import BOUND_S, Lab, laboratory
from tests.unit.certificates import Authority

# A policy without a model, so that nothing is simulated for one.
SHORT = ("run.warmup=2", "run.duration=15", "time_unit_s=0.05", "policy.name=round_robin")
# It mends what is whole; but a link that is struck leads through a relay.
RELAYED = 'faults=[{at = 5, kind = "heal", between = ["router-1", "servers-slow"]}]'


class Guarded:
    """A lab whose processes have a token and certificates.

    Attributes:
        lab: It. `secret`: the token. `tls`: the files.
    """

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.secret = secrets.token_urlsafe(32)
        (folder / "token").write_text(self.secret + "\n")
        authority = Authority(folder)
        own = authority.sign("127.0.0.1", "localhost")
        self.tls = Tls(own, ca=authority.file, client_ca=authority.file)
        self.token = {TOKEN_FILE: str(folder / "token")}
        self.certificates = {CERT: own, CA: authority.file, CLIENT_CA: authority.file}
        (folder / "tmp").mkdir()
        self.plain = dict(lab.env)
        lab.env |= self.token | self.certificates | {"TMPDIR": str(folder / "tmp")}

    def ask(
        self, url: str, method: str = "GET", body: Any = None, *, token: str = "", certificate: bool = True, **more: str
    ) -> tuple[int, Any]:
        """Ask by TLS; return the status and what was answered."""
        own = self.tls if certificate else Tls(ca=self.tls.ca)
        data = None if body is None else json.dumps(body).encode()
        headers = {key.replace("_", "-"): value for key, value in more.items()}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=BOUND_S, context=own.client_context()) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def shown(self, *folders: Path) -> list[str]:
        """Where the token is to be read: in files of these folders, and on command lines."""
        needle = self.secret.encode()
        found = [str(path) for path in having(needle, *folders)]
        for pid in self.lab.processes():
            try:
                if needle in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(f"the command line of {pid}")
            except OSError:
                continue  # it has ended
        return found


def having(needle: bytes, *folders: Path) -> list[Path]:
    """The files of these folders that hold it; compressed ones are looked into."""

    def content(path: Path) -> bytes:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data

    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return [path for path in files if needle in content(path)]


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    work = tmp_path / "work"
    work.mkdir()
    with laboratory(work) as lab:
        yield Guarded(lab, tmp_path)


def test_a_run_by_mutual_tls_with_a_token_serves_every_job_and_shows_the_token_nowhere(guarded: Guarded) -> None:
    lab = guarded.lab
    sets = [word for each in (*SHORT, RELAYED) for word in ("--set", each)]
    run = lab.start("run", "small.toml", "--json", "--replications", "2", *sets)
    seen: set[str] = set()
    while True:
        assert guarded.shown() == []
        seen |= {word for word in ("router", "server", "load") if lab.processes(word)}
        with suppress(subprocess.TimeoutExpired):
            out, err = run.communicate(timeout=0.1)
            break
    assert seen == {"router", "server", "load"}
    report = json.loads(out)
    # Whether so short a run on a busy machine says anything is not asked here: all parts have found one another.
    assert report["jobs"] > 50 and report["values"]["failed_probability"] == 0.0, report
    assert all(check["holds"] for check in report["identities"])
    folder = lab.folder / report["run_folder"]
    # The search sees into what it searches: the names of servers are in the logs of all three processes.
    assert len(having(b"slow-1", folder / "events")) == 3
    assert guarded.secret not in out + err and guarded.shown(lab.folder, Path(guarded.lab.env["TMPDIR"])) == []


def test_strangers_get_nothing_from_a_cluster_that_is_up_and_friends_get_everything(guarded: Guarded) -> None:
    lab, secret = guarded.lab, guarded.secret
    up = lab.start("up", "small.toml", "--json")
    found = json.loads(up.stdout.readline())
    router, server, console = found["routers"][0], found["servers"][0], found["console"].rstrip("/")
    assert all(url.startswith("https://127.0.0.1:") for url in (router, server, console))

    # Without a certificate nothing is answered; with one, all may look, and nobody without the token may do more.
    with pytest.raises((OSError, ssl.SSLError)):
        guarded.ask(f"{router}/health", certificate=False)
    assert guarded.ask(f"{router}/v1/policy")[1]["name"] == "pull"
    doors = [(router, "POST", "/v1/jobs", {}), (router, "PUT", "/v1/policy", {"name": "random"}),
             (server, "POST", "/v1/drain", None)]  # fmt: skip
    for url, method, path, body in doors:
        for token in ("", secret[::-1]):
            status, answer = guarded.ask(url + path, method, body, token=token)
            assert (status, answer["error"]["kind"]) == (401, "token")
    assert guarded.ask(f"{router}/v1/policy")[1]["name"] == "pull"
    assert {each["state"] for each in guarded.ask(f"{server}/v1/servers")[1]["servers"]} == {"live"}
    assert guarded.ask(f"{router}/v1/jobs", "POST", {}, token=secret)[1]["outcome"] == "served"

    # The page needs no certificate of the browser, but the token for a change.
    with urllib.request.urlopen(
        f"{console}/v1/events", timeout=BOUND_S, context=Tls(ca=guarded.tls.ca).client_context()
    ) as stream:
        stream.readline()
        told = json.loads(stream.readline().removeprefix(b"data: "))
    assert told["locked"] is True and secret not in json.dumps(told)
    page = {"Content_Type": "application/json", "X_Herdless_Token": told["token"]}
    change = (f"{console}/v1/do/policy", "POST", {"name": "jsq"})
    assert guarded.ask(*change, certificate=False, **page)[0] == 401
    assert guarded.ask(*change, certificate=False, token=secret)[0] == 403
    assert guarded.ask(*change, certificate=False, token=secret, **page)[0] == 200
    assert guarded.ask(f"{router}/v1/policy")[1]["name"] == "jsq"

    # The command line: what is missing is told, exit code 2.
    policy = ("policy", "random", "--routers", ",".join(url.removeprefix("https://") for url in found["routers"]))
    for env, message in (
        (guarded.plain | guarded.certificates, "PUT /v1/policy: no token"),
        (guarded.plain | guarded.certificates | {TOKEN: secret[::-1]}, "PUT /v1/policy: another token"),
    ):
        friendly, lab.env = lab.env, env
        code, out, err = lab.run(*policy)
        lab.env = friendly
        assert (code, out) == (2, "") and message in err and secret[::-1] not in err
    assert lab.run(*policy)[0] == 0
    assert guarded.ask(f"{router}/v1/policy")[1]["name"] == "random"

    assert guarded.shown(lab.folder, Path(lab.env["TMPDIR"])) == []
    up.send_signal(signal.SIGINT)
    out, err = up.communicate(timeout=BOUND_S)
    # Between one router's switch and the next one's somebody may have looked, and said that their policies differ.
    assert up.returncode == 130 and set(err.splitlines()) <= {"policies_differ: routers follow different policies"}
    assert secret not in out


def test_without_a_token_no_process_listens_to_other_machines(guarded: Guarded) -> None:
    lab = guarded.lab
    lab.env = guarded.plain
    commands = [
        ("server", "--pool", "slow", "--servers", "1", "--routers", "127.0.0.1:1", "--host", "::"),
        ("console", "small.toml", "--routers", "127.0.0.1:1", "--host", "0.0.0.0"),
        ("deploy", "router", "small.toml"),
    ]
    for process in [lab.start(*command, *(() if command[0] == "deploy" else ("--port", "0"))) for command in commands]:
        out, err = process.communicate(timeout=BOUND_S)
        assert (process.returncode, out) == (2, "")
        assert "without a token only this machine may be listened to: set one (--token-file FILE," in err
    listening = lab.start("router", "--port", "0")
    line = json.loads(listening.stdout.readline())
    assert (line["access"], line["tls"]) == ("loopback", "off")
    listening.terminate()
    listening.communicate(timeout=BOUND_S)
