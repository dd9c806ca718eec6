"""The relay that stands for a bad network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from services.lab.relay import Relay

LIMIT_S = 10.0
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Peer:
    """Listens, and keeps the connections that come."""

    def __init__(self) -> None:
        self.connections: asyncio.Queue[Connection] = asyncio.Queue()
        self.writers: list[asyncio.StreamWriter] = []
        self.relay: Relay

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        await self.connections.put((reader, writer))

    async def dial(self) -> Connection:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(self.relay.url.rpartition(":")[2]))
        self.writers.append(writer)
        return reader, writer

    async def both(self) -> tuple[Connection, Connection]:
        return await self.dial(), await asyncio.wait_for(self.connections.get(), LIMIT_S)


@asynccontextmanager
async def relayed(scheme: str = "http") -> AsyncIterator[Peer]:
    peer = Peer()
    server = await asyncio.start_server(peer.take, "127.0.0.1", 0)
    peer.relay = await Relay.start(f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield peer
    finally:
        await peer.relay.close()
        server.close()
        for writer in peer.writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def read(connection: Connection, count: int) -> bytes:
    return await asyncio.wait_for(connection[0].readexactly(count), LIMIT_S)


async def is_silent(connection: Connection) -> bool:
    """Whether nothing comes, neither a byte nor the end, in the time that a byte through the relay takes many times."""
    with suppress(TimeoutError):
        async with asyncio.timeout(0.1):
            await connection[0].read(1)
            return False
    return True


async def test_what_is_dialled_by_tls_stays_so() -> None:
    async with relayed("https") as peer:
        assert peer.relay.url.startswith("https://127.0.0.1:")
        near, far = await peer.both()
        near[1].write(b"hello")
        assert await read(far, 5) == b"hello"


async def test_everything_passes_both_ways_and_so_does_the_end() -> None:
    async with relayed() as peer:
        near, far = await peer.both()
        near[1].write(b"x" * 300_000)
        far[1].write(b"back")
        assert await read(far, 300_000) == b"x" * 300_000
        assert await read(near, 4) == b"back"
        near[1].close()
        assert await asyncio.wait_for(far[0].read(), LIMIT_S) == b""


async def test_a_cut_is_felt_on_both_sides_and_by_whoever_dials_until_it_is_healed() -> None:
    async with relayed() as peer:
        near, far = await peer.both()
        peer.relay.cut()
        for side in (near, far):
            with suppress(ConnectionError):
                assert await asyncio.wait_for(side[0].read(), LIMIT_S) == b""
        again = await peer.dial()
        with suppress(ConnectionError):
            assert await asyncio.wait_for(again[0].read(), LIMIT_S) == b""
        assert peer.connections.empty()
        peer.relay.heal()
        near, far = await peer.both()
        near[1].write(b"well")
        assert await read(far, 4) == b"well"


async def test_silence_keeps_everything_back_the_end_too() -> None:
    async with relayed() as peer:
        near, far = await peer.both()
        other_near, other_far = await peer.both()
        peer.relay.silence()
        near[1].write(b"there")
        far[1].write(b"back")
        other_near[1].close()
        assert await is_silent(far) and await is_silent(near) and await is_silent(other_far)
        peer.relay.heal()
        assert await read(far, 5) == b"there"
        assert await read(near, 4) == b"back"
        assert await asyncio.wait_for(other_far[0].read(), LIMIT_S) == b""


async def test_one_way_may_be_silent_alone() -> None:
    async with relayed() as peer:
        near, far = await peer.both()
        peer.relay.silence("back")
        near[1].write(b"there")
        far[1].write(b"back")
        assert await read(far, 5) == b"there"
        assert await is_silent(near)
        peer.relay.heal()
        assert await read(near, 4) == b"back"


async def test_delayed_bytes_come_later_and_in_order() -> None:
    async with relayed() as peer:
        near, far = await peer.both()
        clock = asyncio.get_running_loop().time
        peer.relay.delay_s = 0.2
        began = clock()
        near[1].write(b"first ")
        await near[1].drain()
        assert await read(far, 1) == b"f"
        assert clock() - began >= 0.2
        near[1].write(b"second")
        await asyncio.sleep(0)
        peer.relay.heal()
        near[1].write(b" third")
        assert await read(far, 17) == b"irst second third"


async def test_nobody_behind_it_ends_the_connection_like_nobody_there() -> None:
    async with relayed() as peer:
        await peer.relay.close()
        peer.relay = await Relay.start("http://127.0.0.1:1")
        near = await peer.dial()
        with suppress(ConnectionError):
            assert await asyncio.wait_for(near[0].read(), LIMIT_S) == b""


async def test_closing_it_ends_its_connections_without_a_word() -> None:
    heard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context["message"]))
    async with relayed() as peer:
        (dialled, _), (taken, _) = await peer.both()
        late, _ = await peer.dial()  # perhaps not even begun with
        await peer.relay.close()
        for reader in (dialled, taken, late):
            with suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), LIMIT_S) == b""
    assert heard == []
