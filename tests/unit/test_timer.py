"""The precise timer: never early, never lost, on both loops and with every kind of alarm."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from math import inf

import pytest
import uvloop

from server.app import timer as timer_module
from server.app.timer import PreciseTimer, timerfd_available

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
ON_LINUX = timerfd_available()
KINDS = ["loop", "timerfd"] if ON_LINUX else ["loop"]


class Calls:
    """Records at what instant the timer called back, does `then`, and lets a test wait for the n-th call."""

    def __init__(self) -> None:
        self.at_s: list[float] = []
        self.then: Callable[[], object] = lambda: None
        self._changed = asyncio.Event()

    def __call__(self) -> None:
        self.at_s.append(time.monotonic())
        self._changed.set()
        self.then()

    async def wait_for(self, number: int) -> None:
        while len(self.at_s) < number:
            self._changed.clear()
            await self._changed.wait()


Scenario = Callable[[PreciseTimer, Calls], Awaitable[None]]


@pytest.fixture(params=[(loop, kind) for loop in LOOPS for kind in KINDS], ids="-".join)
def run(request: pytest.FixtureRequest) -> Callable[[Scenario], Calls]:
    loop_name, kind = request.param

    def run_scenario(scenario: Scenario) -> Calls:
        async def main() -> Calls:
            calls = Calls()
            timer = PreciseTimer(asyncio.get_running_loop(), calls, kind)
            try:
                await asyncio.wait_for(scenario(timer, calls), 20)
            finally:
                timer.close()
            return calls

        with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
            return runner.run(main())

    return run_scenario


def test_it_is_never_early(run):
    # uvloop's own timers are early by up to 1 ms in about 40% of the cases: 60 delays at all fractions of a
    # millisecond would show it.
    asked_s = []

    async def scenario(timer, calls):
        for step in range(60):
            asked_s.append(time.monotonic() + 0.0005 + step * 0.00007)
            timer.arm(asked_s[-1])
            await calls.wait_for(step + 1)

    calls = run(scenario)
    assert len(calls.at_s) == 60
    assert all(called >= asked for called, asked in zip(calls.at_s, asked_s, strict=True))


def test_an_earlier_instant_takes_over(run):
    async def scenario(timer, calls):
        now_s = time.monotonic()
        timer.arm(now_s + 1000)
        timer.arm(now_s + 0.002)
        assert timer.armed_at_s == now_s + 0.002
        await calls.wait_for(1)

    run(scenario)


def test_a_later_instant_does_not_push_the_earlier_one_away(run):
    async def scenario(timer, calls):
        now_s = time.monotonic()
        timer.arm(now_s + 0.002)
        timer.arm(now_s + 1000)
        timer.arm(inf)
        assert timer.armed_at_s == now_s + 0.002
        await calls.wait_for(1)
        # The owner arms again after each call; until then nothing is armed.
        assert timer.armed_at_s == inf

    run(scenario)


def test_the_past_calls_at_once_but_not_from_within_arm(run):
    async def scenario(timer, calls):
        for number, at_s in enumerate((time.monotonic() - 5, 0.0, -1.0), start=1):
            timer.arm(at_s)
            assert len(calls.at_s) == number - 1
            await calls.wait_for(number)

    run(scenario)


def test_one_call_for_one_arm(run):
    async def scenario(timer, calls):
        timer.arm(time.monotonic())
        await calls.wait_for(1)
        # A second timer, later than any echo of the first could be, shows that there was none.
        timer.arm(time.monotonic() + 0.005)
        await calls.wait_for(2)

    assert len(run(scenario).at_s) == 2


def test_an_instant_beyond_the_limits_of_the_kernel_is_accepted_and_replaced(run):
    async def scenario(timer, calls):
        timer.arm(1e300)
        timer.arm(time.monotonic() + 0.001)
        await calls.wait_for(1)

    run(scenario)


def test_arming_again_between_firing_and_reading_neither_loses_nor_doubles(run):
    async def scenario(timer, calls):
        for number in range(1, 21):
            # The loop is held until the alarm has fired; an earlier instant, past as well, replaces it then.
            timer.arm(time.monotonic() + 0.0002)
            busy_until_s = time.monotonic() + 0.0005
            while time.monotonic() < busy_until_s:
                pass
            timer.arm(busy_until_s - 0.01)
            await calls.wait_for(number)
            assert len(calls.at_s) == number

    run(scenario)


def test_a_callback_may_arm_again(run):
    async def scenario(timer, calls):
        calls.then = lambda: timer.arm(time.monotonic() + 0.0003)
        timer.arm(0.0)
        await calls.wait_for(50)

    run(scenario)


def test_a_callback_that_raises_leaves_the_timer_usable(run):
    async def scenario(timer, calls):
        errors = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))
        calls.then = lambda: 1 / 0
        timer.arm(0.0)
        await calls.wait_for(1)
        calls.then = lambda: None
        timer.arm(0.0)
        await calls.wait_for(2)
        assert [type(error) for error in errors] == [ZeroDivisionError]

    run(scenario)


def test_a_closed_timer_calls_no_more(run):
    async def scenario(timer, calls):
        timer.arm(time.monotonic() + 0.001)
        timer.close()
        timer.close()
        timer.arm(0.0)
        # Another timer that is due later than the closed one marks the time by which it would have called.
        other = Calls()
        marker = PreciseTimer(asyncio.get_running_loop(), other, timer.kind)
        marker.arm(time.monotonic() + 0.005)
        await other.wait_for(1)
        marker.close()

    assert run(scenario).at_s == []


@pytest.mark.skipif(not ON_LINUX, reason="there is no timerfd off Linux")
def test_closing_frees_the_descriptor():
    async def main():
        before = set(os.listdir("/proc/self/fd"))
        timer = PreciseTimer(asyncio.get_running_loop(), lambda: None)
        assert timer.kind == "timerfd"
        assert set(os.listdir("/proc/self/fd")) != before
        timer.close()
        assert set(os.listdir("/proc/self/fd")) == before

    asyncio.run(main())


def test_without_timerfd_the_loop_timer_is_chosen_and_a_wish_for_timerfd_is_refused(monkeypatch):
    def missing():
        raise OSError("no timerfd here")

    monkeypatch.setattr(timer_module, "_timerfd_functions", missing)

    async def main():
        timer = PreciseTimer(asyncio.get_running_loop(), lambda: None)
        assert timer.kind == "loop"
        timer.close()
        with pytest.raises(OSError, match="no timerfd here"):
            PreciseTimer(asyncio.get_running_loop(), lambda: None, "timerfd")

    asyncio.run(main())


@pytest.mark.skipif(not ON_LINUX, reason="there is no timerfd off Linux")
def test_the_functions_of_the_c_library_work_where_python_has_its_own(monkeypatch):
    # From Python 3.13 on the other tests use os.timerfd_create: this one keeps the other branch honest.
    create, settime = timer_module._timerfd_by_ctypes()
    fd = create()
    try:
        with pytest.raises(BlockingIOError):
            os.read(fd, 8)
        assert not os.get_inheritable(fd)
        settime(fd, 1)  # long past: fires at once
        assert os.read(fd, 8) == (1).to_bytes(8, "little")
        with pytest.raises(OSError, match="timerfd_settime"):
            settime(-1, 1)
    finally:
        os.close(fd)
