"""Run a web application as a process of its own: it says where it listens, drains when told to end, and ends.

    sys.exit(run(lambda: serve(app, Listen(role="router", id="router-1", port=0), drain)))

When it listens it writes one line on standard output, from which who started it learns the port:

    {"event": "listening", "role": "router", "id": "router-1", "url": "http://127.0.0.1:43127", "pid": 123,
     "access": "loopback", "tls": "off"}

`access` says who may: `token`, whoever has it; `loopback`, whoever is on this machine, because no token is set.
"""

import asyncio
import errno
import json
import os
import socket
import ssl
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from router.process.access import Access, access_from_environment, bind_fault
from router.process.ending import on_signal, stop_at_once
from router.process.limits import CONNECTIONS, Connections, limit_unread
from router.process.logs import say_at_once
from router.process.tls import Tls, tls_from_environment
from router.protocol.errors import SettingsError

EXIT_OK = 0
EXIT_USER_MISTAKE = 2
EXIT_RUN_INVALID = 3  # the port is in use, or the parent is gone

_MAX_LINE_BYTES = 4096
_MAX_HEADER_BYTES = 8192
_BACKLOG = 1024
_LINGER_S = 1.0  # so long the rest of a body that was refused is read and dropped: its sender shall hear the answer


@dataclass(frozen=True, slots=True)
class Listen:
    """Where and as what a process serves.

    Attributes:
        role: What it is: `router`, `server`, …
        id: Which one it is.
        host: The address to bind to, or a name that resolves to it.
        port: The port, or 0 for any free one.
        drain_limit_s: After so long a drain is given up.
        close_limit_s: So long may handlers that still run after the drain delay the exit.
        end_with_parent: End when standard input ends: see `end_with_parent`.
        as_json: Tell on standard output, as one JSON object, why it cannot listen; else on standard error.
        access: Without a token in it, the process is bound to no other than a loopback address; left out: as the
            environment says.
        tls: How it is spoken to; left out: as the environment says.

    Raises:
        SettingsError: The environment names a token that is none, or that cannot be read.
    """

    role: str
    id: str
    host: str = "127.0.0.1"
    port: int = 0
    drain_limit_s: float = 10.0
    close_limit_s: float = 1.0
    end_with_parent: bool = False
    as_json: bool = False
    access: Access = field(default_factory=access_from_environment)
    tls: Tls = field(default_factory=tls_from_environment)


class CannotListen(Exception):
    """What is wrong with host and port, and the exit code for it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def run(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run the coroutine function `main` on uvloop, or on asyncio's own loop where there is no uvloop."""
    try:
        from uvloop import new_event_loop as loop_factory
    except ImportError:
        with asyncio.Runner() as runner:
            return runner.run(main())
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(main())


async def serve(app: web.Application, listen: Listen, drain: Callable[[], Awaitable[object]] | None = None) -> int:
    """Serve until SIGTERM or SIGINT, then drain, close and return the exit code.

    While `drain` runs, requests are still answered: the application itself refuses new work. A second signal ends
    the drain; during the `close_limit_s` after it others change nothing, and then they end the process at once. Idle
    connections are closed at once; handlers that hold one open (WebSockets) should end in the application's
    `on_shutdown`.

    Args:
        app: The application; its body limit is its own `client_max_size`.
        listen: Where and as what.
        drain: Called once at the first signal.

    Returns:
        EXIT_OK; EXIT_RUN_INVALID when the port is in use; EXIT_USER_MISTAKE when host and port cannot be had, when
        the host is more than this machine and there is no token, or when a file of TLS is not what it should be.
    """
    if listen.end_with_parent:
        end_with_parent()
    try:
        ssl_context = listen.tls.server_context()
        listener = await bind(listen)
    except SettingsError as error:
        return give_up(listen.id, "settings", str(error), listen.as_json)
    except CannotListen as error:
        message = f"cannot listen on {listen.host}:{listen.port}: {error}"
        return give_up(listen.id, "listen", message, listen.as_json, error.code)
    signals: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    # No handlers of the loop: when it closes, it would give them back, and a late signal would then kill the process.
    on_signal(lambda number, frame: loop.call_soon_threadsafe(signals.put_nowait, number))
    try:
        async with accepting(app, listener, ssl_context, listen.close_limit_s):
            _announce(listen, listener)
            await signals.get()
            if drain is not None:
                await _drain(listen, drain, signals)
    finally:
        stop_at_once(EXIT_OK)
    return EXIT_OK


@asynccontextmanager
async def accepting(
    app: web.Application, listener: socket.socket, ssl_context: ssl.SSLContext | None, close_limit_s: float
) -> AsyncIterator[None]:
    """Serve an application to whoever connects, within its limits; then close all connections, and the listener.

    Args:
        app: The application.
        listener: From `bind`.
        ssl_context: For TLS.
        close_limit_s: So long may handlers that still run delay the end.
    """
    connections = app.get(CONNECTIONS) or Connections()
    runner = web.AppRunner(
        app,
        access_log=None,
        shutdown_timeout=close_limit_s,
        max_line_size=_MAX_LINE_BYTES,
        max_field_size=_MAX_HEADER_BYTES,
        keepalive_timeout=connections.limits.idle_limit_s,
        lingering_time=_LINGER_S,
        auto_decompress=False,  # so a body is never longer than what came in, nor fails while it is read
    )
    try:
        await runner.setup()
        assert runner.server is not None
        limit_unread(listener, connections.limits.unread_limit_s)
        connections.admit(runner.server)
        connections.accept(listener, ssl_context)
        yield
    finally:
        connections.close()
        await runner.cleanup()
        listener.close()


def give_up(id: str, kind: str, message: str, as_json: bool, code: int = EXIT_USER_MISTAKE) -> int:
    """Say why a process does not start; return its exit code."""
    if as_json:
        sys.stdout.write(json.dumps({"error": {"kind": kind, "message": f"{id}: {message}"}}) + "\n")
        sys.stdout.flush()
    else:
        say_at_once(f"{id}: {message}\n".encode())
    return code


def end_with_parent() -> None:
    """End this process as soon as its standard input ends, whatever it is doing.

    Who starts the process gives it a pipe as standard input and keeps the other end without ever writing. However
    that parent ends, by SIGKILL too, the kernel closes the pipe, and this process leaves at once. The pipe is
    chosen over Linux's PR_SET_PDEATHSIG because it has no gap: a parent that died before this call is noticed as
    well, a shell or launcher between the two does not matter, a parent's *thread* that ends is no false alarm
    (that signal is tied to the thread that forked), and it works on every POSIX system. A thread of its own
    watches, so that a loop that is stuck ends as well.
    """

    def watch() -> None:
        # os.read, not sys.stdin: a buffered reader's lock would disturb an orderly exit.
        with suppress(OSError):
            while os.read(0, 4096):
                pass
        say_at_once(b"standard input has ended: the parent is gone, so this process ends as well\n")
        os._exit(EXIT_RUN_INVALID)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


async def bind(listen: Listen) -> socket.socket:
    """Open the listening socket: one address only, so that port 0 gives one port.

    Raises:
        CannotListen: Host and port cannot be had, or not without a token.
    """
    host, port = listen.host, listen.port
    if not 0 <= port <= 65535:
        raise CannotListen(EXIT_USER_MISTAKE, "expected a port from 0 (any free one) to 65535")
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        if fault := bind_fault(str(address[0]), listen.access):
            raise CannotListen(EXIT_USER_MISTAKE, fault)
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except UnicodeError:
        raise CannotListen(EXIT_USER_MISTAKE, "between dots a host has 1 to 63 letters") from None
    except socket.gaierror as error:
        message = f"expected an address of this machine or a name that resolves to one: {error.strerror}"
        raise CannotListen(EXIT_USER_MISTAKE, message) from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        if error.errno == errno.EADDRINUSE:
            message = "the port is in use: end what listens there, or choose another port (0: any free one)"
            raise CannotListen(EXIT_RUN_INVALID, message) from None
        raise CannotListen(EXIT_USER_MISTAKE, f"{reason}: choose another host or port") from None


async def _drain(listen: Listen, drain: Callable[[], Awaitable[object]], signals: asyncio.Queue[int]) -> None:
    draining = asyncio.ensure_future(drain())
    impatient = asyncio.ensure_future(signals.get())
    await asyncio.wait((draining, impatient), timeout=listen.drain_limit_s, return_when=asyncio.FIRST_COMPLETED)
    if not draining.done():
        why = "a second signal came" if impatient.done() else f"{listen.drain_limit_s:g} s have passed"
        _complain(listen, f"the drain is not finished, but {why}: what still runs is cut off")
        draining.cancel()
        await asyncio.wait((draining,), timeout=listen.close_limit_s)
    impatient.cancel()
    if draining.done() and not draining.cancelled() and (error := draining.exception()):
        _complain(listen, f"the drain failed: {error!r}")


def url_of(listen: Listen, listener: socket.socket) -> str:
    """Where a process that listens is reached from this machine."""
    host, port = listener.getsockname()[:2]
    # Bound to every address: the loopback one is where the parent, on this machine, reaches it.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    scheme = "http" if listen.tls.kind == "off" else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _announce(listen: Listen, listener: socket.socket) -> None:
    line = {"event": "listening", "role": listen.role, "id": listen.id, "url": url_of(listen, listener),
            "pid": os.getpid(),
            "access": "token" if listen.access.needed else "loopback", "tls": listen.tls.kind}  # fmt: skip
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _complain(listen: Listen, message: str) -> None:
    say_at_once(f"{listen.id}: {message}\n".encode())
