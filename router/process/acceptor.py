"""Accepts the connections of a process, and has them served: where there is TLS, after the handshake.

The loop could do both by itself, but would tell nobody how many are at their handshake, how many failed, and why.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import partial
from typing import cast

from router.process.logs import MOST_TOLD

Serve = Callable[[asyncio.Transport], None]

_ACCEPTS_A_TURN = 100
_PAUSE_S = 1.0  # before the operating system is asked again for what it had not

_log = logging.getLogger(__name__)


class Acceptor:
    """Accepts connections; create it inside the running loop.

    Rule: where there are too many to refuse each in words, one is cut: that whose handshake is the oldest, since those
    who mean it are through in no time; or else the new one.

    Args:
        listener: The socket that listens; it is closed with this.
        tls: The certificate of this process, and whom it lets in; `None`: without TLS.
        handshake_limit_s: The longest that a handshake may take.
        close_limit_s: The longest that a peer by TLS may take to read what was sent to it, and to say goodbye.
        is_full: Whether there are too many.
        serve: Serves a connection from now on.
        refusals: Where connections that are cut are counted, as `limit`, and handshakes that failed, as `tls`.
    """

    def __init__(
        self,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        *,
        handshake_limit_s: float,
        close_limit_s: float,
        is_full: Callable[[], bool],
        serve: Serve,
        refusals: Counter[str],
    ) -> None:
        self._listener = listener
        self._tls = tls
        self._limits = {"ssl": tls, "ssl_handshake_timeout": handshake_limit_s, "ssl_shutdown_timeout": close_limit_s}
        self._is_full = is_full
        self._serve = serve
        self._refusals = refusals
        self._told = 0
        self._is_short = False
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        # With its socket, until the task has begun and looks after it.
        self._coming: OrderedDict[asyncio.Task[None], socket.socket | None] = OrderedDict()
        listener.setblocking(False)
        self._resume()

    def __len__(self) -> int:
        """How many connections are accepted, but not served yet."""
        return len(self._coming)

    def close(self) -> None:
        """Accept no more, and give up those that are not served yet.

        Who connects from now on is refused, instead of waiting in the queue of the operating system for nobody.
        """
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()
        while self._give_up_oldest():
            pass

    # -- accepting ----------------------------------------------------------------------------

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file or memory is left, and the connection still waits
                if not self._is_short:
                    _log.warning("cannot accept connections: %s", error.strerror)
                self._is_short = True
                self._loop.remove_reader(self._listener)
                self._pause = self._loop.call_later(_PAUSE_S, self._resume)
                return
            self._is_short = False
            self._take(connection, address[0])

    def _take(self, connection: socket.socket, peer: str) -> None:
        if self._is_full():
            self._refusals["limit"] += 1
            if self._tls is None or not self._give_up_oldest():
                return connection.close()
        task = self._loop.create_task(self._bring(connection, peer))
        self._coming[task] = connection

    def _give_up_oldest(self) -> bool:
        if not self._coming:
            return False
        task, connection = self._coming.popitem(last=False)
        task.cancel()
        if connection is not None:
            connection.close()
        return True

    # -- one connection -----------------------------------------------------------------------

    async def _bring(self, connection: socket.socket, peer: str) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._coming[task] = None
        limits = self._limits if self._tls else {}
        try:
            await self._loop.connect_accepted_socket(
                partial(_Accepted, partial(self._arrive, task)),
                connection,
                **limits,  # type: ignore[arg-type]  # options of different types, by name
            )
        except OSError as error:
            self._refusals["tls"] += self._tls is not None
            if isinstance(error, ssl.SSLError):  # the others have said nothing, or left
                self._tell(peer, error)
        finally:
            self._coming.pop(task, None)

    def _arrive(self, task: asyncio.Task[None], transport: asyncio.Transport) -> None:
        if task in self._coming:
            del self._coming[task]
            self._serve(transport)
        else:  # given up in the turn before
            transport.abort()

    def _tell(self, peer: str, error: ssl.SSLError) -> None:
        self._told += 1
        if self._told <= MOST_TOLD:
            last = "; further ones are only counted" if self._told == MOST_TOLD else ""
            _log.warning("no TLS with %s: %s%s", peer, _why(error), last)


class _Accepted(asyncio.Protocol):
    """What meets a connection: only when it is there is it chosen what serves it."""

    def __init__(self, arrive: Callable[[asyncio.Transport], None]) -> None:
        self._arrive = arrive

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._arrive(cast(asyncio.Transport, transport))  # which that of uvloop is no subclass of


def _why(error: ssl.SSLError) -> str:
    """What was wrong, in the words of OpenSSL."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not believed: {error.verify_message}"
    if error.reason == "HTTP_REQUEST":
        return "it speaks HTTP without TLS"
    return (error.reason or str(error)).replace("_", " ").lower()
