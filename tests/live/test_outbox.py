"""The outbox on real WebSockets over loopback, in both directions, on both loops."""

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import uvloop
from aiohttp import ClientSession, WSCloseCode, WSMsgType, web

from router.process.outbox import Outbox, accept, dial
from services.lab.relay import Relay

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS)
def run(request):
    def run_on_loop(main):
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            return runner.run(asyncio.wait_for(main, 30))

    return run_on_loop


@asynccontextmanager
async def linked(relayed=False, **options):
    """Yield the two ends of one WebSocket: the server's, then the client's; and the relay between them, if wanted."""
    accepted: asyncio.Queue[Any] = asyncio.Queue()
    done = asyncio.Event()

    async def handle(request):
        ws = await accept(request, **options)
        await accepted.put(ws)
        await done.wait()
        return ws

    app = web.Application()
    app.router.add_get("/link", handle)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with AsyncExitStack() as stack:
            session = await stack.enter_async_context(ClientSession())
            url = f"http://127.0.0.1:{site.port}"
            if relayed:
                relay = await Relay.start(url)
                stack.push_async_callback(relay.close)
                url = relay.url
            client = await dial(session, f"{url}/link", **options)
            yield (await accepted.get(), client, relay) if relayed else (await accepted.get(), client)
            done.set()
            await client.close()
    finally:
        done.set()
        await runner.cleanup()


def encode(messages):
    return b"".join(message.to_bytes(4, "big") for message in messages)


def decode(frame):
    return [int.from_bytes(frame[at : at + 4], "big") for at in range(0, len(frame), 4)]


def test_everything_arrives_in_order_both_ways(run):
    count = 20_000

    async def main():
        async with linked() as ends:
            for sender, receiver in (ends, ends[::-1]):
                received: list[int] = []

                async def read(receiver=receiver, received=received):
                    while len(received) < count:
                        received.extend(decode(await receiver.receive_bytes()))

                outbox = Outbox(sender, encode)
                reader = asyncio.create_task(read())
                for message in range(count):
                    outbox.put(message)
                    if message % 100 == 0:
                        await asyncio.sleep(0)
                await reader
                assert received == list(range(count))
                assert (outbox.messages, outbox.bytes) == (count, 4 * count)
                assert outbox.frames < count / 50
                if sender is ends[1]:
                    await asyncio.gather(outbox.close(), receiver.receive())

    run(main())


def test_the_peer_is_told_why_a_link_is_closed(run):
    async def main():
        async with linked() as (server, client):
            outbox = Outbox(server, encode)
            outbox.put(7)
            closing = asyncio.create_task(outbox.close(code=WSCloseCode.GOING_AWAY, reason="draining"))
            assert decode(await client.receive_bytes()) == [7]
            message = await client.receive()
            assert (message.type, message.data, message.extra) == (
                WSMsgType.CLOSE,
                WSCloseCode.GOING_AWAY,
                "draining",
            )
            await closing

    run(main())


@pytest.mark.parametrize("sending_end", [0, 1], ids=["server", "client"])
def test_a_peer_that_does_not_read_loses_its_link(run, sending_end):
    async def main():
        async with linked() as ends:
            cut = asyncio.Event()
            outbox: Outbox[int] = Outbox(
                ends[sending_end],
                lambda messages: bytes(1000 * len(messages)),
                limit=2_000,
                cut_limit_s=0.05,
                on_cut=lambda _: cut.set(),
            )
            reader = asyncio.create_task(ends[sending_end].receive())  # as a link's owner does
            put = 0
            while outbox.put(1):  # until all buffers between the two are full, and then the queue
                put += 1
                if put % 100 == 0:
                    await asyncio.sleep(0)
            await cut.wait()
            await outbox.close()
            assert outbox.overflows == 1
            assert put - outbox.messages >= 2_000
            # The owner's reading ends, so that it learns of the loss where it always does.
            assert (await reader).type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED)
            # And the connection is really shut: when the peer reads again it finds some frames and the end.
            received = 0
            while (message := await ends[1 - sending_end].receive()).type is WSMsgType.BINARY:
                received += len(message.data) // 1000
            assert received <= outbox.messages + 1_000  # the last frame was still being written

    run(main())


def test_a_frame_over_the_limit_ends_the_link_and_both_ends_know_why(run):
    async def main():
        async with linked(max_frame_bytes=1000) as (server, client):
            outbox = Outbox(client, encode)
            for message in range(251):  # 1004 bytes in one frame
                outbox.put(message)
            error = await server.receive()
            assert error.type is WSMsgType.ERROR
            assert error.data.code == WSCloseCode.MESSAGE_TOO_BIG
            assert (await client.receive()).data == WSCloseCode.MESSAGE_TOO_BIG
            await outbox.close()

    run(main())


@pytest.mark.parametrize("sending_end", [0, 1], ids=["server", "client"])
def test_a_silent_peer_costs_no_descriptor_although_much_is_undelivered(run, sending_end):
    """A transport that is closed waits for what it has still to deliver; the kernel must give that up as well."""

    async def main():
        async with linked(heartbeat_s=0.2, relayed=True) as (server, client, relay):
            outbox: Outbox[int] = Outbox((server, client)[sending_end], lambda messages: bytes(50_000 * len(messages)))
            relay.silence()
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(400):  # 20 MB: more than all buffers hold
                outbox.put(1)
            while (await (server, client)[sending_end].receive()).type is WSMsgType.BINARY:
                pass
            await outbox.close()
            while len(os.listdir("/proc/self/fd")) > before - 2:  # noqa: ASYNC110 - only by looking does one learn of it
                await asyncio.sleep(0.02)

    run(main())
