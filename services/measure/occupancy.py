"""How long servers had how many jobs, from the records of the jobs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from services.measure.records import Floats, Ints, Run


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Time spent at each queue length, by batch.

    Units: time units (times servers).

    Attributes:
        by_pool: Shape (batches, pools, lengths): summed over the servers of the pool.
        total: Shape (batches, lengths): at each number of jobs at all servers together.
    """

    by_pool: Floats
    total: Floats


def occupancy(run: Run, edges: Floats) -> Occupancy:
    """Follow the queue length of each server through the batches between `edges`.

    A job is in the system of its server from its arrival there until it leaves; one that was turned away stays
    no time at all. Every job must have ended.

    Units: `edges` in time units; shape (batches + 1,), rising.
    """
    records, fleet = run.records, run.fleet
    stayed = (records.server >= 0) & (records.waiting + records.service > 0.0)
    arrived = records.arrived[stayed]
    left = arrived + records.waiting[stayed] + records.service[stayed]
    server = records.server[stayed]

    every_server = np.arange(len(fleet.servers))
    # Each server also "changes" by nothing at each edge, which cuts its story there.
    instants = np.concatenate([arrived, left, np.tile(edges, len(every_server))])
    steps = np.concatenate([np.ones_like(server), -np.ones_like(server), np.zeros(len(edges) * len(every_server), int)])
    servers = np.concatenate([server, server, np.repeat(every_server, len(edges))])
    pools = fleet.pool_of[servers]
    order = np.lexsort((steps, instants, servers))
    by_pool = _time_at(instants[order], steps[order], edges, pools[order], len(fleet.pools))

    instants = np.concatenate([arrived, left, edges])
    steps = np.concatenate([np.ones_like(server), -np.ones_like(server), np.zeros(len(edges), int)])
    order = np.lexsort((steps, instants))
    alone = np.zeros(len(order), int)
    total = _time_at(instants[order], steps[order], edges, alone, 1)
    return Occupancy(by_pool, total[:, 0])


def _time_at(instants: Floats, steps: Ints, edges: Floats, group: Ints, groups: int) -> Floats:
    """Time at each level by batch and group; shape (batches, groups, levels).

    Rows are sorted by server, then instant. Every server begins and ends empty, so one running sum over all of
    them is the level of each.
    """
    level = np.cumsum(steps)[:-1]
    lasts = np.diff(instants)
    batch = np.searchsorted(edges, instants[:-1], side="right") - 1
    batches = len(edges) - 1
    # From one server's last row to the next one's first, `lasts` is negative; that time belongs to nobody.
    inside = (batch >= 0) & (batch < batches) & (lasts > 0.0)
    level, lasts, batch, group = level[inside], lasts[inside], batch[inside], group[:-1][inside]
    levels = int(level.max(initial=0)) + 1
    cell = (batch * groups + group) * levels + level
    sums = np.bincount(cell, weights=lasts, minlength=batches * groups * levels).astype(float)
    return sums.reshape((batches, groups, levels))
