"""What a router process must be told."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from router.freshness import Stale
from router.memory import MemoryRule
from router.policy import Policy
from router.process.limits import HttpLimits
from router.protocol.errors import SettingsError
from router.protocol.needs import Positive, too_often
from router.protocol.notices import Name
from router.registry import make_policy


class RouterSettings(BaseModel):
    """The settings of one router process; constant while it runs, the policy apart.

    Attributes:
        id: The router's name, unique in the system; also names its random stream.
        host: The address to listen on. `port`: the port; 0: any free one.
        policy: The scenario's `[policy]` table: the policy's name and its parameters.
        seed: The root seed.
        time_unit_s: Seconds in a time unit; scales the buckets of histograms.
        probe_timeout_s: The longest that a job waits for answers to its probes.
        retries: How often a job that failed at a server, or with its link, is dispatched to another one, at random.
        memory: When servers that fail or hang are set aside, in time units; left out: never.
        stale_after: Views that no report has renewed for so many time units are stale; left out: none is.
        stale: What a stale view counts as.
        max_keys: The most answers to jobs with a key that are kept; `keys_kept_s`: for how long.
        ceiling: The most jobs in this router's system; beyond, they fail at once with reason `ceiling`.
        drain_limit_s: The longest that a router told to end waits for the jobs in its system.
        heartbeat_s: How often a peer that is silent is asked whether it is still there.
        max_links: The most server processes. `max_streams`: the most generators that stream.
        max_servers: The most servers of all links. `max_pools`: the most pools that metrics tell apart.
        max_pull_messages: The most pull-messages that are held at a time.
        max_policy_changes: The most changes of policy within any second.
        http: What whoever comes by HTTP may make the process hold.
        hello_limit_s: The longest that a server process may take to say hello.
        backlog: How many messages may wait for a peer that reads slowly, besides one a job in the system.
        stall_limit_s: How long a peer may take nothing at all while streams wait for it.
        end_with_parent: End as soon as standard input ends.
        events: The file of the event log; empty: there is none. `events_mib`: how much of it is kept, in MiB;
            `events_grow`: it grows beyond that, and all is kept.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Name = "router-1"
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    policy: dict[str, Any] = {"name": "pull"}
    seed: int = 1
    time_unit_s: Positive = 0.1
    probe_timeout_s: Positive = 1.0
    retries: NonNegativeInt = 0
    memory: MemoryRule | None = None
    stale_after: Positive | None = None
    stale: Stale = "ignore"
    max_keys: PositiveInt = 20_000
    keys_kept_s: Positive = 600.0
    ceiling: PositiveInt = 100_000
    drain_limit_s: Positive = 30.0
    heartbeat_s: Positive = 10.0
    max_links: PositiveInt = 1_000
    max_streams: PositiveInt = 100
    max_servers: PositiveInt = 100_000
    max_pools: PositiveInt = 100
    max_pull_messages: PositiveInt = 1_000_000
    max_policy_changes: PositiveInt = 10
    http: HttpLimits = HttpLimits()
    hello_limit_s: Positive = 10.0
    backlog: Annotated[int, Field(ge=1000)] = 100_000
    stall_limit_s: Positive = 5.0
    end_with_parent: bool = False
    events: str = ""
    events_mib: Annotated[int, Field(ge=1, le=65536)] = 8
    events_grow: bool = False

    @property
    def most_waiting(self) -> int:
        """The most messages that wait for one peer.

        When a link is lost all its jobs end or go elsewhere at one instant, which is no fault of those who hear of it.
        """
        return self.ceiling + self.backlog


def policy_in_time(table: Mapping[str, Any], rng: Random, time_unit_s: float) -> Policy:
    """A new policy for a router whose time unit is so long.

    Raises:
        SettingsError: As `make_policy`, and where servers would refuse what the policy needs.
    """
    policy = make_policy(table, rng)
    if wrong := too_often(policy.needs, time_unit_s):
        raise SettingsError(f"policy {policy.name} asks for {wrong}")
    return policy
