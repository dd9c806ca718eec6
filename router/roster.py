"""Who is there and which policy is in force: all of a router that is not about a single job."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from router.events import PolicyChanged, RouterEffect, ServerDraining, ServerJoined, ServerRated, Tally
from router.members import Members
from router.policy import Policy, Server
from router.protocol.errors import LocalProtocolError
from router.protocol.messages import Pull, Withdraw
from router.upkeep import Upkeep

OnError = Callable[[Policy, Exception], None]
"""Told what a policy in force has raised."""


def raise_it(policy: Policy, error: Exception) -> None:
    """Let the error out."""
    raise error


class Roster:
    """The servers of a router and its policy; `RouterCore` adds the jobs.

    Args:
        id: The router's name.
        policy: The policy in force at first.
        on_error: Told what a policy has raised.

    Attributes:
        members: The servers, and which of them may be chosen.
        servers, draining: As in `Members`.
        policy: The policy in force. `tally`: what it has done. `tallies`: those of all, by name.
        unheld_withdrawals: Withdrawals of pull-messages that were not held.
    """

    upkeep: Upkeep

    def __init__(self, id: str, policy: Policy, on_error: OnError) -> None:
        self.id = id
        self.members = Members(self._policies, self._tell)
        self.servers = self.members.servers
        self.draining = self.members.draining
        self.tallies: dict[str, Tally] = {}
        self.unheld_withdrawals = 0
        self._unchosen = self.members.unchosen
        self._on_error = on_error
        self._use(policy)

    @property
    def held_total(self) -> int:
        """Pull-messages that are held, by the policy in force or for servers that are set aside."""
        held = self.policy.held_total
        return held + self.members.kept if self.members.aside else held

    # -- pull-messages ------------------------------------------------------------------------

    def _pull(self, event: Pull, now: float) -> list[RouterEffect]:
        server = self.servers.get(event.server) or self._known(event.server, "pull-message from it")
        if event.server not in self._unchosen:
            try:
                self.policy.on_pull(server, event.number)
            except Exception as error:
                self._on_error(self.policy, error)
        elif (aside := self.members.aside.get(event.server)) is not None and self.policy.needs.pull is not None:
            aside.pulls[event.number] = None
        return []

    def _withdraw(self, event: Withdraw, now: float) -> list[RouterEffect]:
        server = self._known(event.server, "withdrawal from it")
        aside = self.members.aside.get(event.server)
        if aside is not None:
            held = aside.pulls.pop(event.number, self) is None
        else:
            held = self._tell(self.policy, self.policy.on_withdraw, server, event.number)
        self.unheld_withdrawals += not held
        return []

    # -- servers ------------------------------------------------------------------------------

    def _known(self, id: str, what: str) -> Server:
        server = self.servers.get(id)
        if server is None:
            raise LocalProtocolError(f"router {self.id}: {what}, but {id} has not joined")
        return server

    def _server_joined(self, event: ServerJoined, now: float) -> list[RouterEffect]:
        server = event.server
        if server.id in self.servers:
            raise LocalProtocolError(f"router {self.id}: {server.id} has joined already; it must leave first")
        self.members.join(server)
        return self.upkeep.joined(server, now)

    def _server_draining(self, event: ServerDraining, now: float) -> list[RouterEffect]:
        self.members.drain(self._known(event.server, "a server drains"))
        return []

    def _server_rated(self, event: ServerRated, now: float) -> list[RouterEffect]:
        self.members.rate(self._known(event.server, "a server has another rate"), event.rate)
        return []

    # -- policies -----------------------------------------------------------------------------

    def _waiting(self) -> Iterable[Policy]:
        """The policies whose jobs still wait for answers."""
        return ()

    def _policies(self) -> list[Policy]:
        """The policy in force, and those before it whose jobs still wait for answers: they must know who is there."""
        return list(dict.fromkeys([self.policy, *self._waiting()]))

    def _tell(self, policy: Policy, hook: Callable[..., Any], *arguments: Any) -> Any:
        """Call a hook of a policy. Those that jobs and pull-messages meet are called in place, which is faster."""
        try:
            return hook(*arguments)
        except Exception as error:
            self._on_error(policy, error)
            return None

    def view_changed(self, server: Server) -> None:
        """`server.view` was set to something that no report has said."""
        if self._on_report is not None and server.id not in self._unchosen:
            self._tell(self.policy, self._on_report, server)

    def _policy_changed(self, event: PolicyChanged, now: float) -> list[RouterEffect]:
        policy = event.policy
        if policy in self._policies():
            raise LocalProtocolError(f"router {self.id}: this policy {policy.name} is in use; make a new one")
        views = {server: server.view for server in self.servers.values()}
        try:
            for server in views:
                server.view = None  # nobody keeps it up until the servers know the new needs, and report
            for server in self.members.in_order():
                policy.on_join(server)
            self._use(policy)
        except Exception:  # the old policy stays in force, and with it what it knows
            for server, view in views.items():
                server.view = view
            raise
        self.members.forget_pulls()
        self.upkeep.begin_anew(policy.needs, now)
        return []

    def _use(self, policy: Policy) -> None:
        """Put `policy` in force; hooks that it does not override are not called at all."""
        pull = policy.needs.pull  # first: a policy that cannot say what it needs is not put in force
        kind = type(policy)
        self.policy = policy
        self.tally = self.tallies.setdefault(policy.name, Tally(policy.name))
        self._tells_held = pull is not None and pull.placement == "shortest_of"
        self._on_sent = policy.on_sent if kind.on_sent is not Policy.on_sent else None
        self._on_report = policy.on_report if kind.on_report is not Policy.on_report else None
        self._on_job_ended = policy.on_job_ended if kind.on_job_ended is not Policy.on_job_ended else None
