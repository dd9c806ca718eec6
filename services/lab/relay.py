"""A link that can be cut, silenced and delayed: a small TCP relay on loopback between two processes of a run."""

from __future__ import annotations

import asyncio
from typing import Literal

CHUNK_BYTES = 1 << 16
MOST_CHUNKS = 256
"""Under way in one direction of a connection that is delayed; beyond, the sender is not read."""

Way = Literal["there", "back"]
WAYS: tuple[Way, Way] = ("there", "back")


class Relay:
    """Stands between whoever dials and a process that listens; create it by `start`.

    While it is silent it reads nothing: what was sent stays with the sender, as with packets that are lost and sent
    again, and neither side hears of the other's end. Delayed bytes stay in order.

    Args:
        host: Of the process that listens. `port`: its port.

    Attributes:
        url: To dial.
        delay_s: How much longer bytes are under way, each way; may be changed at any time.
    """

    def __init__(self, host: str, port: int) -> None:
        self.url = ""
        self.delay_s = 0.0
        self._target = host, port
        self._cut = False
        self._flows = {way: asyncio.Event() for way in WAYS}
        self._connections: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self._server: asyncio.Server
        self.heal()

    @classmethod
    async def start(cls, url: str) -> Relay:
        """Open a relay to the process at this URL, on a port of its own."""
        scheme, _, address = url.partition("://")  # what is said by TLS passes as it is
        host, _, port = address.rpartition(":")
        relay = cls(host, int(port))
        relay._server = await asyncio.start_server(relay._accept, "127.0.0.1", 0)
        relay.url = f"{scheme}://127.0.0.1:{relay._server.sockets[0].getsockname()[1]}"
        return relay

    def cut(self) -> None:
        """End all connections, and each new one at once: both sides learn of it."""
        self._cut = True
        for writers in self._connections.values():
            for writer in writers:
                writer.transport.abort()

    def silence(self, *ways: Way) -> None:
        """Pass nothing on in these directions (none named: in both); neither side is told."""
        for way in ways or WAYS:
            self._flows[way].clear()

    def heal(self) -> None:
        """Pass everything on again; what the senders kept comes first."""
        self._cut = False
        self.delay_s = 0.0
        for flow in self._flows.values():
            flow.set()

    async def close(self) -> None:
        """End all connections and listen no more."""
        self._server.close()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    # -- one connection -----------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The task is ours: of one that asyncio makes for a connection, some of its versions expect no cancellation.
        writers = [writer]
        task = asyncio.create_task(self._serve(reader, writers))
        self._connections[task] = writers
        task.add_done_callback(self._give_up)

    def _give_up(self, task: asyncio.Task[None]) -> None:
        for writer in self._connections.pop(task):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writers: list[asyncio.StreamWriter]) -> None:
        try:
            if self._cut:
                return
            await self._flows["there"].wait()
            onward_reader, onward_writer = await asyncio.open_connection(*self._target)
            writers.append(onward_writer)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, onward_writer, "there"))
                both.create_task(self._pass(onward_reader, writers[0], "back"))
        except* OSError:
            pass  # one side is gone, and with it the connection

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        """Pass on what comes one way, until its sender ends."""
        flow, clock = self._flows[way], asyncio.get_running_loop().time
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(MOST_CHUNKS)

        async def deliver() -> None:
            while True:
                at, data = await under_way.get()
                await asyncio.sleep(max(at - clock(), 0.0))
                await flow.wait()
                if not data:
                    writer.write_eof()
                    return
                writer.write(data)
                await writer.drain()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(deliver())
            data = b"-"
            while data:
                await flow.wait()
                data = await reader.read(CHUNK_BYTES)
                await under_way.put((clock() + self.delay_s, data))
