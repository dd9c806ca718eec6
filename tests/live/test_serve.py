"""A small application served by a real process: how it starts, refuses, drains and ends."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

# `Listen` takes its options from the first argument. POST /stick blocks the loop for good.
APP = """
import asyncio, json, sys, time
from aiohttp import web
from router.process.serve import Listen, run, serve
from router.protocol.http import MAX_BODY_BYTES

options = json.loads(sys.argv[1])
drain_s = options.pop("drain_s", 0.0)
state = "ready"

async def get(request):
    return web.Response(text=state)

async def post(request):
    return web.Response(text=str(len(await request.read())))

async def stick(request):
    print("stuck", flush=True)
    time.sleep(3600)

async def link(request):
    ws = web.WebSocketResponse()
    await ws.prepare(request)
    async for _ in ws:
        pass
    return ws

async def drain():
    global state
    state = "draining"
    print("draining", flush=True)
    if drain_s < 0:
        raise RuntimeError("no plug")
    await asyncio.sleep(drain_s)
    print("drained", flush=True)

async def main():
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.add_routes([web.get("/", get), web.post("/", post), web.post("/stick", stick), web.get("/link", link)])
    return await serve(app, Listen(role="router", id="router-1", **options), drain)

sys.exit(run(main))
"""

# A parent that starts the application with a pipe as its standard input, and then waits for ever.
PARENT = """
import signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], stdin=subprocess.PIPE)
signal.pause()
"""

ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
BOUND_S = 20  # far above what is needed, far below what a hanging process would take


class Process:
    """A started process, its listening line, and ways to talk to it."""

    def __init__(self, *arguments, **options):
        self.popen = subprocess.Popen(
            [sys.executable, "-c", *arguments, json.dumps(options)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENV,
        )

    def read_line(self):
        assert self.popen.stdout is not None
        readable, _, _ = select.select([self.popen.stdout], [], [], BOUND_S)
        assert readable, "no line on standard output"
        return self.popen.stdout.readline()

    def listening(self):
        line = self.read_line()
        assert self.popen.stderr is not None
        assert line, self.popen.stderr.read()
        return json.loads(line)

    def finish(self):
        """Wait for the end: (exit code, rest of standard output, standard error)."""
        out, err = self.popen.communicate(timeout=BOUND_S)
        return self.popen.returncode, out, err


@pytest.fixture
def start():
    with ExitStack() as stack:

        def start_process(*arguments, **options):
            process = Process(*(arguments or (APP,)), **options)
            stack.callback(process.popen.communicate)
            stack.callback(process.popen.kill)
            return process

        yield start_process


def connect(url):
    return closing(HTTPConnection(urlsplit(url).netloc, timeout=BOUND_S))


def ask(connection, method="GET", path="/", body=None, headers=None):
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_it_says_where_it_listens_and_answers_there(start):
    process = start()
    line = process.listening()
    assert line == {
        "event": "listening",
        "role": "router",
        "id": "router-1",
        "url": line["url"],
        "pid": process.popen.pid,
        "access": "loopback",
        "tls": "off",
    }
    with connect(line["url"]) as connection:
        assert ask(connection) == (200, "ready")
        assert ask(connection, "POST", body=b"x" * 64) == (200, "64")


def test_a_body_is_taken_as_it_came_and_never_unpacked(start):
    with connect(start().listening()["url"]) as connection:
        for coding in ("gzip", "deflate", "br"):
            assert ask(connection, "POST", body=b"x" * 64, headers={"Content-Encoding": coding}) == (200, "64")


def test_a_port_in_use_is_named_and_exits_3(start):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = start(port=port).finish()
    assert code == 3
    assert out == ""
    assert err == (
        f"router-1: cannot listen on 127.0.0.1:{port}: the port is in use: "
        "end what listens there, or choose another port (0: any free one)\n"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": "192.0.2.1"}, "without a token only this machine may be listened to"),
        ({"host": "no such name"}, "expected an address of this machine or a name that resolves to one"),
        ({"host": "a" * 64}, "between dots a host has 1 to 63 letters"),
        ({"port": 70000}, "expected a port from 0 (any free one) to 65535"),
        ({"port": -1}, "expected a port from 0 (any free one) to 65535"),
    ],
)
def test_a_host_or_port_that_cannot_be_is_the_users_mistake(start, options, message):
    code, out, err = start(**options).finish()
    assert (code, out) == (2, "")
    assert err.startswith("router-1: cannot listen on ")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_exits_0_although_connections_are_kept_alive(start, number):
    process = start()
    with connect(process.listening()["url"]) as used, connect(f"http://{used.host}:{used.port}") as fresh:
        assert ask(used) == (200, "ready")  # stays open: HTTP/1.1 keeps connections alive
        fresh.connect()  # open, but never used
        process.popen.send_signal(number)
        assert process.finish() == (0, "draining\ndrained\n", "")


LATE = """
import os

class Last:
    def __del__(self, kill=os.kill, own=os.getpid()):  # when modules are cleared, Python's handlers are gone already
        kill(own, 2)
        kill(own, 15)

last = Last()
"""


def test_a_signal_at_the_very_end_changes_nothing(start):
    process = start(LATE + APP)
    process.listening()
    process.popen.terminate()
    assert process.finish() == (0, "draining\ndrained\n", "")


def test_signals_while_it_closes_change_nothing(start):
    app = APP.replace("    return await serve(", "    app.on_shutdown.append(shut)\n    return await serve(")
    shut = """
async def shut(app):
    for number in (2, 15, 15):
        os.kill(os.getpid(), number)
        await asyncio.sleep(0)
"""
    process = start(LATE + shut + app)
    process.listening()
    process.popen.terminate()
    assert process.finish() == (0, "draining\ndrained\n", "")


def test_a_signal_ends_it_at_once_when_only_a_thread_is_waited_for(start):
    app = APP.replace(
        "    return await serve(",
        "    asyncio.get_running_loop().run_in_executor(None, time.sleep, 3600)\n    return await done(",
    )
    done = """
async def done(*arguments):
    code = await serve(*arguments)
    print("served", flush=True)
    return code
"""
    process = start(done + app)
    process.listening()
    process.popen.terminate()
    assert [process.read_line() for _ in range(3)] == ["draining\n", "drained\n", "served\n"]
    process.popen.terminate()
    assert process.finish() == (0, "", "")


@pytest.mark.parametrize(("command", "code"), [("policies", 0), ("nonsense", 2)])
def test_a_signal_at_the_very_end_of_a_command_does_not_change_its_exit_code(start, command, code):
    process = start(LATE + f"import sys\nfrom services.cli import main\nsys.argv[1:] = ['{command}']\nmain()")
    assert process.finish()[0] == code


def test_a_command_that_is_interrupted_twice_exits_130(start):
    command = """
import os, sys
from services.cli import main
from services.lab import experiment

def read(*arguments):
    try:
        os.kill(os.getpid(), 15)
        while True:
            pass
    finally:  # it clears up, and the next signal comes
        os.kill(os.getpid(), 15)
        while True:
            pass

experiment.read_experiment = read
sys.argv[1:] = ["simulate", "mm1"]
main()
"""
    code, out, err = start(LATE + command).finish()
    assert (code, out, err) == (130, "", "herdless: interrupted\n")


def test_requests_are_answered_while_it_drains(start):
    process = start(drain_s=3600, drain_limit_s=3600)
    with connect(process.listening()["url"]) as connection:
        process.popen.terminate()
        assert process.read_line() == "draining\n"
        assert ask(connection) == (200, "draining")
        process.popen.terminate()  # and a second signal ends the wait
        code, out, err = process.finish()
    assert (code, out) == (0, "")
    assert err == ("router-1: the drain is not finished, but a second signal came: what still runs is cut off\n")


def test_a_drain_has_a_limit(start):
    process = start(drain_s=3600, drain_limit_s=0.1)
    process.listening()
    process.popen.terminate()
    code, out, err = process.finish()
    assert (code, out) == (0, "draining\n")
    assert err == "router-1: the drain is not finished, but 0.1 s have passed: what still runs is cut off\n"


def test_a_drain_that_fails_is_reported_and_does_not_stop_the_exit(start):
    process = start(drain_s=-1)
    process.listening()
    process.popen.terminate()
    code, _, err = process.finish()
    assert code == 0
    assert err == "router-1: the drain failed: RuntimeError('no plug')\n"


def test_an_open_websocket_delays_the_exit_by_the_limit_at_most(start):
    process = start(close_limit_s=0.1)
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    with connect(process.listening()["url"]) as connection:
        connection.request("GET", "/link", headers=upgrade)
        assert connection.getresponse().status == 101
        process.popen.terminate()
        assert process.finish() == (0, "draining\ndrained\n", "")


def test_bodies_and_headers_have_limits(start):
    url = start().listening()["url"]
    with connect(url) as connection:
        status, _ = ask(connection, "POST", body=b"x" * (64 * 1024 + 1))
        assert status == 413
    with connect(url) as connection:
        status, _ = ask(connection, headers={"X-Long": "x" * 9000})
        assert status == 400
    with connect(url) as connection:
        assert ask(connection) == (200, "ready")


@pytest.mark.parametrize("stuck", [False, True], ids=["idle", "stuck"])
def test_it_ends_when_its_parent_is_killed(start, stuck):
    parent = start(PARENT, APP, end_with_parent=True)
    line = parent.listening()
    assert line["pid"] != parent.popen.pid
    with connect(line["url"]) as connection:
        if stuck:
            connection.request("POST", "/stick")
            assert parent.read_line() == "stuck\n"
        parent.popen.kill()
        # Both have the pipes of standard output and error open, so these end when both processes have ended.
        code, out, err = parent.finish()
    assert (code, out) == (-signal.SIGKILL, "")
    assert err == "standard input has ended: the parent is gone, so this process ends as well\n"


def test_it_stays_when_its_standard_input_has_ended_and_nobody_asked(start):
    process = start()  # its standard input is /dev/null
    with connect(process.listening()["url"]) as connection:
        assert ask(connection) == (200, "ready")
    assert process.popen.poll() is None
