"""The outbox on a fake WebSocket: batches, order, overflow, flush and the ways a link ends."""

import asyncio

import pytest
from aiohttp import ClientConnectionResetError, WSCloseCode

from router.process.outbox import Outbox

NOT_CLOSED = (0, b"")


class FakeWebSocket:
    """Remembers the frames; its peer reads only while `reads` is set, and may be gone."""

    def __init__(self):
        self.frames = []
        self.closed_with: tuple[int, bytes] = NOT_CLOSED
        self.reads = asyncio.Event()
        self.reads.set()
        self.gone = False

    async def send_bytes(self, data):
        if self.gone:
            raise ClientConnectionResetError("Cannot write to closing transport")
        self.frames.append(data)
        await self.reads.wait()

    async def close(self, *, code=1000, message=b""):
        await self.reads.wait()
        self.closed_with = (code, message)
        return True

    def get_extra_info(self, name, default=None):
        return default


def encode(messages):
    return ",".join(map(str, messages)).encode()


async def until(condition):
    """Let the other tasks run until the condition holds; the test's time limit bounds it."""
    while not condition():  # noqa: ASYNC110 (what is waited for has no event)
        await asyncio.sleep(0)


async def test_what_is_put_together_is_sent_in_one_frame():
    ws = FakeWebSocket()
    outbox = Outbox(ws, encode)
    assert outbox.put(1)
    assert outbox.put(2)
    assert outbox.put(3)
    assert len(outbox) == 3
    await until(lambda: outbox.messages == 3)
    assert ws.frames == [b"1,2,3"]
    outbox.put(4)
    await outbox.close()
    assert ws.frames == [b"1,2,3", b"4"]
    assert (outbox.frames, outbox.messages, outbox.bytes) == (2, 4, 6)
    assert (outbox.overflows, outbox.refused) == (0, 0)
    assert ws.closed_with == (WSCloseCode.OK, b"")


async def test_messages_gather_while_a_frame_is_written():
    ws = FakeWebSocket()
    ws.reads.clear()
    outbox = Outbox(ws, encode)
    outbox.put(1)
    await until(lambda: ws.frames)
    for message in range(2, 6):
        outbox.put(message)
        await asyncio.sleep(0)
    assert ws.frames == [b"1"]
    ws.reads.set()
    await outbox.close()
    assert ws.frames == [b"1", b"2,3,4,5"]


async def test_a_frame_has_a_most_and_the_order_stays():
    ws = FakeWebSocket()
    outbox = Outbox(ws, encode, max_batch=3)
    for message in range(7):
        outbox.put(message)
    await outbox.close()
    assert ws.frames == [b"0,1,2", b"3,4,5", b"6"]


async def test_a_ready_frame_goes_alone_and_in_its_place():
    ws = FakeWebSocket()
    outbox = Outbox(ws, encode)
    outbox.put(1)
    outbox.put(2)
    outbox.put_frame(b"ready")
    outbox.put_frame(b"again")
    outbox.put(3)
    await outbox.close()
    assert ws.frames == [b"1,2", b"ready", b"again", b"3"]
    assert (outbox.frames, outbox.messages, outbox.bytes) == (4, 3, 14)


async def test_close_flushes_a_full_queue():
    ws = FakeWebSocket()
    outbox = Outbox(ws, encode, limit=5, max_batch=2)
    for message in range(5):
        outbox.put(message)
    await outbox.close(code=WSCloseCode.GOING_AWAY, reason="drained")
    assert ws.frames == [b"0,1", b"2,3", b"4"]
    assert ws.closed_with == (WSCloseCode.GOING_AWAY, b"drained")


async def test_one_message_over_the_limit_cuts_the_link():
    ws = FakeWebSocket()
    ws.reads.clear()
    reasons: list[str] = []
    outbox = Outbox(ws, encode, limit=3, on_cut=reasons.append)
    outbox.put(0)
    await until(lambda: ws.frames)  # taken out of the queue: three more have room
    assert [outbox.put(message) for message in range(1, 6)] == [True, True, True, False, False]
    assert not outbox.is_open
    # The owner is told by the loop, never from within put: it may be in the middle of something.
    assert reasons == []
    await until(lambda: reasons)
    assert reasons == ["reads too slowly: 3 messages wait, the limit"]
    assert (outbox.overflows, outbox.refused) == (1, 1)
    ws.reads.set()
    await outbox.close()
    assert ws.closed_with == (WSCloseCode.TRY_AGAIN_LATER, b"reads too slowly: 3 messages wait, the limit")
    assert ws.frames == [b"0"]  # what waited is dropped


async def test_a_peer_that_never_reads_delays_neither_a_cut_nor_a_close():
    for cut_first in (True, False):
        ws = FakeWebSocket()
        ws.reads.clear()
        outbox = Outbox(ws, encode, cut_limit_s=0.01)
        outbox.put(1)
        outbox.put(2)
        await until(lambda ws=ws: ws.frames)
        if cut_first:
            outbox.cut("enough")
        async with asyncio.timeout(10):
            await outbox.close(flush_limit_s=0.01)
        assert not outbox.put(3)
        assert ws.closed_with == NOT_CLOSED  # it took no goodbye: the connection is shut


async def test_a_link_is_closed_though_whoever_hears_of_the_cut_fails(caplog):
    ws = FakeWebSocket()
    outbox = Outbox(ws, encode, on_cut=lambda reason: 1 / 0)
    outbox.cut("enough")
    await outbox.close()
    assert ws.closed_with == (WSCloseCode.TRY_AGAIN_LATER, b"enough")
    assert "ZeroDivisionError" in caplog.text


async def test_a_peer_that_is_gone_is_reported_once():
    ws = FakeWebSocket()
    reasons: list[str] = []
    outbox = Outbox(ws, encode, on_cut=reasons.append)
    ws.gone = True
    outbox.put(1)
    await until(lambda: reasons)
    assert not outbox.put(2)
    await outbox.close()
    assert reasons == ["the peer is gone: Cannot write to closing transport"]
    assert (outbox.frames, outbox.messages, outbox.refused) == (0, 0, 1)


async def test_a_message_that_cannot_be_encoded_cuts_the_link_and_is_logged(caplog):
    ws = FakeWebSocket()
    reasons: list[str] = []
    outbox: Outbox[int] = Outbox(ws, lambda batch: bytes(batch), on_cut=reasons.append)
    outbox.put(1000)  # bytes() takes 0 to 255
    await until(lambda: reasons)
    await outbox.close()
    assert reasons[0].startswith("cannot send: ValueError(")
    assert ws.closed_with[0] == WSCloseCode.INTERNAL_ERROR
    assert "[1000]" in caplog.text


async def test_a_long_reason_fits_a_close_frame_and_stays_text():
    ws = FakeWebSocket()
    outbox = Outbox(ws, encode)
    outbox.cut("é" * 100)  # two bytes each, and a close frame takes 123
    await outbox.close()
    assert ws.closed_with[1].decode() == "é" * 61


@pytest.mark.parametrize("times", [2, 3])
async def test_close_may_be_repeated_and_at_the_same_time(times):
    ws = FakeWebSocket()
    outbox = Outbox(ws, encode)
    outbox.put(1)
    await asyncio.gather(*(outbox.close() for _ in range(times)))
    await outbox.close()
    assert ws.frames == [b"1"]
    assert not outbox.put(2)
