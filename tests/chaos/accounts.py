"""That no job is lost from sight: what generator, routers and servers have on record is added up when all is quiet."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from time import monotonic

import numpy as np

from router.protocol.messages import OUTCOMES
from services.audit.audit import audit
from services.audit.ledger import Ledger
from services.audit.log import Log, read_log
from services.lab.audit import check_counters
from services.lab.events import ENDING
from services.lab.scrape import Samples
from tests.chaos.load import outcomes
from tests.chaos.stage import BOUND_S, ROUTERS, SLACK_S, UNIT_S, Stage


@dataclass(frozen=True)
class Quiet:
    """What there is at a moment at which no job is under way.

    Attributes:
        jobs: How many the generator had sent.
        samples: All counters of each process that runs, by name. `pids`: which incarnation it is.
        held: Open files and tasks of each.
    """

    jobs: int
    samples: dict[str, Samples]
    pids: dict[str, int]
    held: dict[str, dict[str, int]]


async def quiet(stage: Stage) -> Quiet:
    """Wait until every job has its end, everywhere, and look at all processes.

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
        {name: await held(stage, name) for name in names},
    )


async def held(stage: Stage, name: str) -> dict[str, int]:
    """What a process holds: its open files, and its tasks, that of the look at it included."""
    tasks = (await stage.samples(name)).total("herdless_process_tasks")
    return {"open files": stage.descriptors(name), "tasks": int(tasks)}


async def check_held(stage: Stage, before: Quiet) -> None:
    """Who was there before holds no more than then; a connection of somebody who looked may take a moment to be closed.

    Raises:
        AssertionError: Somebody keeps what it should have closed.
    """
    for name, former in before.held.items():
        if not stage.running.is_up(name) or stage.running[name].pid != before.pids[name]:
            continue

        async def no_more(name: str = name, former: dict[str, int] = former) -> bool:
            now = await held(stage, name)
            return all(now[what] <= former[what] for what in former)

        await stage.until(no_more, SLACK_S, f"{name} holds no more than before: {former}")


def check_accounts(stage: Stage, before: Quiet, after: Quiet) -> Counter[tuple[str, str]]:
    """Add up all since the stage began, job by job; return the ends of the jobs between two quiet moments.

    Raises:
        AssertionError: A job is lost from sight, or has two ends.
    """
    former, running = _logs(stage, after)
    found = audit(_ledger(stage), former + running)
    wrong = [*found.mismatches, *check_counters(after.samples, running)]
    assert not wrong, "; ".join(map(str, wrong))
    assert stage.guests or not found.unchecked, "; ".join(found.unchecked)
    return outcomes(stage.load.jobs[before.jobs :])


def _ledger(stage: Stage) -> Ledger:
    """The generator's book. Where others have sent jobs too, the numbers that routers were told are not all its own."""
    jobs = stage.load.jobs
    servers = list(dict.fromkeys(job.server for job in jobs if job.server))
    reasons = list(dict.fromkeys(["", *(job.reason for job in jobs)]))
    sent = np.array([job.sent_s for job in jobs])
    return Ledger(
        intended=sent,
        sent=sent,
        ended=np.array([job.ended_s for job in jobs]),
        router=np.array([ROUTERS.index(job.router) for job in jobs], np.int64),
        server=np.array([servers.index(job.server) if job.server else -1 for job in jobs], np.int64),
        outcome=np.array([OUTCOMES.index(job.outcome) if job.outcome else -1 for job in jobs], np.int64),
        reason=np.array([reasons.index(job.reason) for job in jobs], np.int64),
        routers=ROUTERS,
        servers=servers,
        reasons=reasons,
        doubled=stage.load.doubled,
        tagged=not stage.guests,
        time_unit_s=UNIT_S,
    )


def _logs(stage: Stage, now: Quiet) -> tuple[list[Log], list[Log]]:
    """The event logs of all incarnations that have ended, and of those that run, as of processes that end now."""
    former: list[Log] = []
    running: dict[str, Log] = {}
    for path in sorted(stage.folder.glob(f"*{ENDING}*"), key=lambda path: (len(path.name), path.name)):
        log, name = read_log(path.read_bytes()), path.name.partition(ENDING)[0]
        if name not in now.pids or name != log.about.id:
            former.append(log)
            continue
        if name in running:
            former.append(running[name])
        running[name] = log
    return former, [replace(log, closed_at=monotonic()) for log in running.values()]


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
