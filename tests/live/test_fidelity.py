"""Emulated services last as long as they were drawn: no drift, never early, little lag, on a busy process."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field

import pytest
import uvloop

from router.protocol.due import DueHeap
from server.app.timer import PreciseTimer

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
MEAN_S = 0.02


@dataclass
class Measured:
    """What became of the services of one run, in seconds."""

    drawn_s: float = 0.0
    real_s: float = 0.0
    lags_s: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return self.real_s / self.drawn_s

    def lag_s(self, quantile: float) -> float:
        return sorted(self.lags_s)[int(quantile * len(self.lags_s))]

    def __str__(self) -> str:
        microseconds = [f"p{100 * q:.0f} {1e6 * self.lag_s(q):.0f}" for q in (0.5, 0.9, 0.99)]
        mean = 1e6 * sum(self.lags_s) / len(self.lags_s)
        return f"real/drawn {self.ratio:.6f}; lag in us: mean {mean:.0f} {' '.join(microseconds)}"


@dataclass
class Server:
    """A server that always has a next job: its services follow one another without a gap."""

    durations_s: Iterator[float]
    began_at_s: float = 0.0


async def emulate(servers: int, services: int, busy_s: float, *, drift: bool = False) -> Measured:
    """Run `services` exponential services and measure each real duration by the clock at its two ends.

    Args:
        servers: How many servers work in parallel.
        services: How many services each of them has.
        busy_s: For so long does another callback block the loop, again and again, one third of the time.
        drift: Start a service when the timer fired, and not when the one before was scheduled to end.
    """
    rng = random.Random("fidelity")
    loop = asyncio.get_running_loop()
    measured, finished = Measured(), loop.create_future()
    due: DueHeap[Server] = DueHeap()
    working = servers

    def start(server: Server, at_s: float) -> bool:
        duration_s = next(server.durations_s, None)
        if duration_s is None:
            return False
        measured.drawn_s += duration_s
        due.push(at_s + duration_s, server)
        return True

    def on_due() -> None:
        nonlocal working
        for at_s, server in due.pop_due(time.monotonic()):
            ended_at_s = time.monotonic()
            measured.real_s += ended_at_s - server.began_at_s
            measured.lags_s.append(ended_at_s - at_s)
            server.began_at_s = ended_at_s
            working -= not start(server, ended_at_s if drift else at_s)
        timer.arm(due.next_at)
        if not working and not finished.done():
            finished.set_result(None)

    async def keep_busy() -> None:
        while not finished.done():
            until_s = time.monotonic() + busy_s
            while time.monotonic() < until_s:
                pass
            await asyncio.sleep(2 * busy_s)

    timer = PreciseTimer(loop, on_due)
    for _ in range(servers):
        durations_s = [rng.expovariate(1 / MEAN_S) for _ in range(services)]
        server = Server(iter(durations_s), began_at_s=time.monotonic())
        start(server, server.began_at_s)
    timer.arm(due.next_at)
    background = asyncio.create_task(keep_busy()) if busy_s else None
    await finished
    if background:
        await background
    timer.close()
    assert len(measured.lags_s) == servers * services
    return measured


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[None, None, Measured]], Measured]:
    def run_on_loop(main: Coroutine[None, None, Measured]) -> Measured:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            measured = runner.run(main)
        print(f"\n{request.param}: {measured}")  # noqa: T201 (what was measured is shown by `pytest -s`)
        return measured

    return run_on_loop


def test_services_last_as_long_as_drawn_on_a_busy_process(run):
    # 100 servers x 200 services x 20 ms: 20,000 services in about 4 s. The real durations of one server
    # follow one another without a gap, so without drift their sum is off by a single lag in 200 x 20 ms.
    measured = run(emulate(100, 200, busy_s=0.001))
    assert measured.ratio == pytest.approx(1, abs=0.005)
    assert min(measured.lags_s) >= 0


def test_the_measurement_sees_a_drift(run):
    # The loop is blocked 1 ms in every 3 ms, so a third of the ends fall into a block and wait 0.5 ms on
    # average: with each lag pushed on to the next service, 20 ms become 20.17 ms. A busier machine adds.
    measured = run(emulate(100, 50, busy_s=0.001, drift=True))
    assert measured.ratio > 1.005


@pytest.mark.long
def test_the_lag_is_below_a_tenth_of_a_millisecond(run):
    measured = run(emulate(40, 500, busy_s=0.0005))
    assert measured.ratio == pytest.approx(1, abs=0.005)
    assert min(measured.lags_s) >= 0
    assert measured.lag_s(0.5) < 0.0001


@pytest.mark.long
@pytest.mark.timeout(900)
def test_ten_minutes_show_no_drift(run):
    # 40 servers x 30,000 services x 20 ms = 600 s. The bound is absolute: drift would grow with the number of
    # services, and a tenth of a microsecond for each would show.
    servers, services = 40, 30_000
    measured = run(emulate(servers, services, busy_s=0.0005))
    assert min(measured.lags_s) >= 0
    assert measured.real_s - measured.drawn_s < servers * services * 1e-7
