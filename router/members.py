"""Who is there, whom the policies of a router may choose from, and the pull-messages of those whom they may not."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Literal

from router.choice import Population
from router.events import RouterEffect
from router.in_force import InForce
from router.policy import Policy, Server
from router.protocol.errors import LocalProtocolError
from router.protocol.messages import Pull, Withdraw

Why = Literal["failed", "hung", "stale"]
"""Why a server is set aside."""

State = Literal["live", "draining", "aside"]
STATES: tuple[State, ...] = ("live", "draining", "aside")

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
        router: The router's name.
        in_force: The policy, which is told.

    Attributes:
        router: As given.
        servers: By name, in order of joining.
        draining: The names of those that drain. `aside`: what is kept for those that are set aside, by name.
        unchosen: The names of both. `chosen`: all others.
        just_aside: Those set aside since somebody looked, for whoever waits for their answers.
        set_aside_total: How often a server was set aside, by reason.
        ignored: How often all came back because there was nobody else.
        unheld_withdrawals: Withdrawals of pull-messages that were not held.
    """

    def __init__(self, router: str, in_force: InForce) -> None:
        self.router = router
        self.servers: dict[str, Server] = {}
        self.draining: set[str] = set()
        self.aside: dict[str, Aside] = {}
        self.unchosen: set[str] = set()
        self.chosen: Population[Server] = Population()
        self.just_aside: list[Server] = []
        self.set_aside_total: dict[Why, int] = {"failed": 0, "hung": 0, "stale": 0}
        self.ignored = 0
        self.unheld_withdrawals = 0
        self._in_force = in_force

    def known(self, id: str, what: str) -> Server:
        """The server of this name.

        Raises:
            LocalProtocolError: There is none, so `what` is impossible.
        """
        server = self.servers.get(id)
        if server is None:
            raise LocalProtocolError(f"router {self.router}: {what}, but {id} has not joined")
        return server

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
        """A server comes.

        Raises:
            LocalProtocolError: One of its name is here.
        """
        if server.id in self.servers:
            raise LocalProtocolError(f"router {self.router}: {server.id} has joined already; it must leave first")
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
            for policy in self._in_force.in_use():
                self._in_force.tell(policy, policy.on_rate, server)

    def move_to(self, policy: Policy) -> None:
        """All join another policy, which is then in force; if it raises the old one stays, and what it knows.

        Raises:
            LocalProtocolError: It is in use.
        """
        if policy in self._in_force.in_use():
            raise LocalProtocolError(f"router {self.router}: this policy {policy.name} is in use; make a new one")
        views = {server: server.view for server in self.servers.values()}
        try:
            for server in views:
                server.view = None  # nobody keeps it up until the servers know the new needs, and report
            for server in self.in_order():
                policy.on_join(server)
            self._in_force.use(policy)
        except Exception:
            for server, view in views.items():
                server.view = view
            raise
        for aside in self.aside.values():
            aside.pulls.clear()  # servers take back what they had posted under the old one

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
            aside.pulls.update(dict.fromkeys(self._in_force.policy.messages(server)))
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

    def state(self, server: Server) -> State:
        """Whether it may be chosen, and why not."""
        return "draining" if server.id in self.draining else "aside" if server.id in self.aside else "live"

    # -- pull-messages ------------------------------------------------------------------------

    def pull(self, event: Pull, now: float) -> list[RouterEffect]:
        """A server posts one."""
        id, _, number = event
        server = self.servers.get(id) or self.known(id, "pull-message from it")
        in_force = self._in_force
        if id not in self.unchosen:
            try:
                in_force.policy.on_pull(server, number)
            except Exception as error:
                in_force.on_error(in_force.policy, error)
        elif (aside := self.aside.get(id)) is not None and in_force.policy.needs.pull is not None:
            aside.pulls[number] = None
        return []

    def withdraw(self, event: Withdraw, now: float) -> list[RouterEffect]:
        """A server takes one back."""
        server = self.known(event.server, "withdrawal from it")
        aside = self.aside.get(event.server)
        if aside is not None:
            held = aside.pulls.pop(event.number, self) is None
        else:
            policy = self._in_force.policy
            held = self._in_force.tell(policy, policy.on_withdraw, server, event.number)
        self.unheld_withdrawals += not held
        return []

    def held(self, server: Server) -> int:
        """Those of a server that are held, by the policy in force or for its return."""
        aside = self.aside.get(server.id)
        return self._in_force.policy.held(server) if aside is None else len(aside.pulls)

    @property
    def held_total(self) -> int:
        """Those of all servers."""
        held = self._in_force.policy.held_total
        return held + sum(len(aside.pulls) for aside in self.aside.values()) if self.aside else held

    # -- inside -------------------------------------------------------------------------------

    def _may_be_chosen(self, server: Server) -> None:
        self.chosen.add(server)
        for policy in self._in_force.in_use():
            self._in_force.tell(policy, policy.on_join, server)

    def _may_not_be_chosen(self, server: Server) -> None:
        self.chosen.remove(server)
        for policy in self._in_force.in_use():
            self._in_force.tell(policy, policy.on_leave, server)

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
        policy = self._in_force.policy
        for number in aside.pulls:
            self._in_force.tell(policy, policy.on_pull, server, number)
