"""Who is there, and whom the policies of a router may choose from."""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random
from typing import Any, Literal

from router.choice import Population
from router.policy import Policy, Server

Why = Literal["failed", "hung", "stale"]
"""Why a server is set aside."""

State = Literal["live", "draining", "aside"]
STATES: tuple[State, ...] = ("live", "draining", "aside")

Tell = Callable[..., Any]
"""Calls a hook of a policy: `tell(policy, hook, *arguments)`; what the hook raises is dealt with there."""

MOST_DRAWS = 8


class Aside:
    """What is kept for a server that is set aside.

    Attributes:
        whys: Why it is; it comes back when none is left.
        pulls: Its pull-messages, those that the policy held before it was set aside and those that came since.
    """

    __slots__ = ("pulls", "whys")

    def __init__(self) -> None:
        self.whys: dict[Why, None] = {}
        self.pulls: dict[int, None] = {}


class Members:
    """The servers of one router.

    Rule: policies may choose from all servers but those that drain and those that are set aside; when either happens
    a policy is told that the server has left. The pull-messages of a server that is set aside are kept, and handed
    over when it comes back, so that it is not forgotten. The last server to choose from is never set aside: instead
    all those that are come back, because jobs must go somewhere.

    Args:
        policies: The policies in use, the one in force first.
        tell: Calls a hook of one of them.

    Attributes:
        servers: By name, in order of joining.
        draining: The names of those that drain. `aside`: what is kept for those that are set aside, by name.
        unchosen: The names of both. `chosen`: all others.
        just_aside: Those set aside since somebody looked, for whoever waits for their answers.
        set_aside_total: How often a server was set aside, by reason.
        ignored: How often all came back because there was nobody else.
    """

    def __init__(self, policies: Callable[[], list[Policy]], tell: Tell) -> None:
        self.servers: dict[str, Server] = {}
        self.draining: set[str] = set()
        self.aside: dict[str, Aside] = {}
        self.unchosen: set[str] = set()
        self.chosen: Population[Server] = Population()
        self.just_aside: list[Server] = []
        self.set_aside_total: dict[Why, int] = {"failed": 0, "hung": 0, "stale": 0}
        self.ignored = 0
        self._policies = policies
        self._tell = tell

    def in_order(self) -> list[Server]:
        """Those that the policy may choose from, in order of joining."""
        return [server for server in self.servers.values() if server.id not in self.unchosen]

    def draw(self, rng: Random, tried: Collection[str] = ()) -> Server | None:
        """One of those that may be chosen and were not tried, uniformly; `None`: there is none."""
        chosen = self.chosen
        for _ in range(MOST_DRAWS if len(chosen) else 0):
            server = chosen.draw(rng)
            if server.id not in tried:
                return server
        rest = [server for server in chosen.items if server.id not in tried]
        return rest[int(rng.random() * len(rest))] if rest else None

    # -- coming and going ---------------------------------------------------------------------

    def join(self, server: Server) -> None:
        """A server that is not here."""
        self.servers[server.id] = server
        self._may_be_chosen(server)

    def drain(self, server: Server) -> None:
        """It takes nothing new."""
        if server.id in self.draining:
            return
        self.draining.add(server.id)
        if self.aside.pop(server.id, None) is None:
            self.unchosen.add(server.id)
            self._may_not_be_chosen(server)
        self._spare_the_last()

    def leave(self, server: Server) -> None:
        """It is gone; a server that comes later under the same name is another one."""
        del self.servers[server.id]
        server.left = True
        self.aside.pop(server.id, None)
        if server.id in self.unchosen:
            self.unchosen.discard(server.id)
            self.draining.discard(server.id)
        else:
            self._may_not_be_chosen(server)
        self._spare_the_last()

    def rate(self, server: Server, rate: float) -> None:
        """It has another rate from now on."""
        server.rate = rate
        if server.id not in self.unchosen:
            for policy in self._policies():
                self._tell(policy, policy.on_rate, server)

    # -- setting aside ------------------------------------------------------------------------

    def set_aside(self, server: Server, why: Why) -> bool:
        """Keep a server from being chosen, for one reason more; whether it is set aside now."""
        if server.left or server.id in self.draining:
            return False
        aside = self.aside.get(server.id)
        if aside is None and len(self.chosen) == 1:
            self._let_all_back()
            return False
        if aside is None or why not in aside.whys:
            self.set_aside_total[why] += 1
        if aside is None:
            aside = self.aside[server.id] = Aside()
            aside.pulls.update(dict.fromkeys(self._policies()[0].messages(server)))
            self.unchosen.add(server.id)
            self.just_aside.append(server)
            self._may_not_be_chosen(server)
        aside.whys[why] = None
        return True

    def let_back(self, server: Server, why: Why) -> None:
        """One reason less; without any, the server may be chosen again."""
        aside = self.aside.get(server.id)
        if aside is not None and not server.left:
            aside.whys.pop(why, None)
            if not aside.whys:
                self._return(server)

    def is_aside(self, server: Server, why: Why) -> bool:
        """Whether it is set aside for this reason."""
        aside = self.aside.get(server.id)
        return aside is not None and why in aside.whys and not server.left

    def forget_pulls(self) -> None:
        """There is another policy: servers take back what they had posted under the old one."""
        for aside in self.aside.values():
            aside.pulls.clear()

    def state(self, server: Server) -> State:
        """Whether it may be chosen, and why not."""
        return "draining" if server.id in self.draining else "aside" if server.id in self.aside else "live"

    def held(self, server: Server) -> int:
        """Pull-messages of a server that are held, by the policy in force or for its return."""
        aside = self.aside.get(server.id)
        return self._policies()[0].held(server) if aside is None else len(aside.pulls)

    @property
    def kept(self) -> int:
        """Pull-messages that are kept for servers that are set aside."""
        return sum(len(aside.pulls) for aside in self.aside.values())

    # -- inside -------------------------------------------------------------------------------

    def _may_be_chosen(self, server: Server) -> None:
        self.chosen.add(server)
        for policy in self._policies():
            self._tell(policy, policy.on_join, server)

    def _may_not_be_chosen(self, server: Server) -> None:
        self.chosen.remove(server)
        for policy in self._policies():
            self._tell(policy, policy.on_leave, server)

    def _spare_the_last(self) -> None:
        if not len(self.chosen) and self.aside:
            self._let_all_back()

    def _let_all_back(self) -> None:
        self.ignored += 1
        for id in list(self.aside):
            self._return(self.servers[id])

    def _return(self, server: Server) -> None:
        aside = self.aside.pop(server.id)
        self.unchosen.discard(server.id)
        self._may_be_chosen(server)
        policy = self._policies()[0]
        for number in aside.pulls:
            self._tell(policy, policy.on_pull, server, number)
