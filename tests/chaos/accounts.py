"""That no job is lost from sight: what generator, routers and servers have counted is compared when all is quiet."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from services.lab.scrape import Samples
from tests.chaos.load import GENERATOR_SAYS, Job, outcomes
from tests.chaos.stage import BOUND_S, ROUTERS, Stage

SPARE_DESCRIPTORS = 3  # of connections for looking, which may be open at the one time and not at the other


@dataclass(frozen=True)
class Quiet:
    """All counters at a moment at which no job is under way.

    Attributes:
        jobs: That the generator had sent.
        samples: Of each process that runs, by name. `pids`: which incarnation it is.
        descriptors: Open files of each.
    """

    jobs: int
    samples: dict[str, Samples]
    pids: dict[str, int]
    descriptors: dict[str, int]


async def quiet(stage: Stage) -> Quiet:
    """Wait until every job has its end, everywhere, and read everything.

    Raises:
        AssertionError: Something does not come to rest, or says that jobs are there where none can be.
    """

    async def at_rest() -> bool:
        if stage.load.under_way():
            return False
        for name in stage.alive([*ROUTERS, *stage.processes]):
            samples = await stage.samples(name)
            if _under_way(samples) or (name in ROUTERS and await _outstanding(stage, name)):
                return False
        return True

    await stage.until(at_rest, BOUND_S, "no job under way anywhere")
    names = stage.alive([*ROUTERS, *stage.processes])
    samples = {name: await stage.samples(name) for name in names}
    if stage.policy["name"] == "pull":
        await _check_pull_messages(stage)
    return Quiet(
        len(stage.load.jobs),
        samples,
        {name: stage.running[name].pid for name in names},
        {name: stage.descriptors(name) for name in names},
    )


def check_accounts(stage: Stage, before: Quiet, after: Quiet, streams_lost: set[str]) -> Counter[tuple[str, str]]:
    """Compare the books between two quiet moments; return the ends of the generator's jobs.

    Args:
        stage: Where it happened.
        before: The books before. `after`: those after.
        streams_lost: Routers whose stream from the generator was lost: it does not know what became of some jobs.

    Raises:
        AssertionError: A job is lost from sight, or has two ends; or a process keeps what it should have closed.
    """
    jobs = stage.load.jobs[before.jobs :]
    assert not [job for job in jobs if not job.outcome], "a job has no end"
    assert stage.load.doubled == 0, "a job has two ends"
    lived = [name for name, pid in after.pids.items() if before.pids.get(name) == pid]
    books = {name: _Book(before.samples[name], after.samples[name]) for name in lived}
    for name, book in books.items():
        spare = after.descriptors[name] - before.descriptors[name]
        assert spare <= SPARE_DESCRIPTORS, f"{name} has {spare} more files open than before"
        if name in ROUTERS:
            sent = None if stage.guests else [job for job in jobs if job.router == name]
            _check_router(name, book, sent, name in streams_lost)
        else:
            arrived = book.gain("herdless_server_arrivals_total")
            ended = book.gain("herdless_server_jobs_total")
            assert arrived == ended, f"{name}: {arrived} jobs arrived and {ended} ended"
    if set(ROUTERS) | set(stage.processes) <= set(lived) and not stage.guests:
        _check_all(books, stage)
    return outcomes(jobs)


class _Book:
    """What one process has counted between two moments."""

    def __init__(self, before: Samples, after: Samples) -> None:
        self._before, self._after = before, after

    def gain(self, name: str, **labels: str) -> int:
        return round(self._after.total(name, **labels) - self._before.total(name, **labels))


def _check_router(name: str, book: _Book, sent: list[Job] | None, stream_lost: bool) -> None:
    """What a router says of its jobs is what the generator knows of them."""
    taken, ended = book.gain("herdless_router_jobs_total"), book.gain("herdless_router_ends_total")
    assert taken == ended, f"{name}: {taken} jobs arrived and {ended} ended"
    if sent is None:  # others have sent it jobs too
        return
    said = [job for job in sent if job.reason != "no_router"]
    if stream_lost:
        assert taken <= len(said), f"{name} took {taken} jobs, but {len(said)} were sent"
        return
    assert taken == len(said), f"{name} took {taken} jobs, but {len(said)} were sent"
    for (outcome, reason), count in outcomes(said).items():
        told = book.gain("herdless_router_ends_total", outcome=outcome, reason=reason)
        assert told == count, f"{name}: {told} ended as {outcome} {reason}, the generator knows of {count}"


def _check_all(books: dict[str, _Book], stage: Stage) -> None:
    """All processes lived: what routers have sent is at the servers, or was lost with a link, which they know."""
    routers = [books[name] for name in ROUTERS]
    servers = [books[name] for name in stage.processes]
    sent = sum(book.gain("herdless_router_dispatches_total") for book in routers)
    lost = sum(book.gain("herdless_router_ends_total", reason="link_lost") for book in routers)
    came = sum(book.gain("herdless_server_arrivals_total") for book in servers)
    assert sent - lost <= came <= sent, f"{sent} dispatches, {lost} lost with links, but {came} came to servers"
    served = sum(book.gain("herdless_router_ends_total", outcome="served") for book in routers)
    done = sum(book.gain("herdless_server_jobs_total", outcome="served") for book in servers)
    assert served <= done <= served + lost, f"servers served {done} jobs, routers know of {served}, and lost {lost}"


def _under_way(samples: Samples) -> float:
    """Jobs that a process of either kind has."""
    names = ("herdless_router_in_flight", "herdless_router_probing", "herdless_server_queue_length",
             "herdless_server_busy_slots")  # fmt: skip
    return sum(samples.total(name) for name in names)


async def _outstanding(stage: Stage, router: str) -> int:
    return sum(server["outstanding"] for server in (await stage.get(router, "/v1/servers"))["servers"])


async def _check_pull_messages(stage: Stage) -> None:
    """An idle server that takes jobs has one pull-message out, at one router."""

    async def as_many_as_servers() -> bool:
        held: Counter[str] = Counter()
        for router in stage.alive(ROUTERS):
            for server in (await stage.get(router, "/v1/servers"))["servers"]:
                held[server["id"]] += server["pull_messages"]
        live = [
            server["id"]
            for process in stage.alive(stage.processes)
            for server in (await stage.get(process, "/v1/servers"))["servers"]
            if server["state"] == "live"
        ]
        return +held == Counter(live)

    await stage.until(as_many_as_servers, BOUND_S, "one pull-message of each server, and of no other one")


def by_generator(ends: Counter[tuple[str, str]]) -> int:
    """Ends that the generator may have booked by itself."""
    return sum(count for (_, reason), count in ends.items() if reason in GENERATOR_SAYS)
