"""Mistakes that routers make, and the policies that choose for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from router.choice import LeastLoaded, Population, WeightedDraw, sample
from router.core import RouterCore
from router.flights import Flights
from router.members import Members
from router.memory import FailureMemory
from router.policies import power_of_d
from router.policies.power_of_d import MaxVacancy
from router.policies.pull import Pull
from router.policies.random import RandomPolicy
from router.policy import Assign
from router.protocol.messages import End
from services.simulator.links import Lost, Port
from services.simulator.router_process import RouterProcess
from tests.swarm.mutant import Patch, mutant


def _router(patch: Patch, name: str, make: Callable[[Any], Any], part: type = RouterCore) -> None:
    """Put another method in the place of one of the router's core, or of a part of it, made from the right one."""
    patch.setattr(part, name, make(getattr(part, name)))


# -- ends and counts -----------------------------------------------------------------------------------


@mutant
def a_dispatch_is_counted_twice(patch: Patch) -> None:
    """When it is a repetition."""

    def make(right: Any) -> Any:
        def send(self: Flights, job: Any, assign: Assign, tally: Any, tried: tuple[str, ...] = ()) -> Any:
            assign.server.outstanding += len(tried) > 0
            return right(self, job, assign, tally, tried)

        return send

    _router(patch, "send", make, Flights)


@mutant
def an_orphan_is_counted(patch: Patch) -> None:
    """An end that comes twice takes one off a second time."""

    def make(right: Any) -> Any:
        def end(self: Flights, event: Any, now: float) -> Any:
            if event.job not in self.in_flight and event.server in self._members.servers:
                self._members.servers[event.server].outstanding -= 1
            return right(self, event, now)

        return end

    _router(patch, "end", make, Flights)


@mutant
def a_lost_job_stays_in_flight(patch: Patch) -> None:
    """When a server leaves, one of its jobs is forgotten."""

    def make(right: Any) -> Any:
        def left(self: RouterCore, event: Any, now: float) -> Any:
            mine = [number for number, record in self.in_flight.items() if record.server.id == event.server]
            kept = {number: self.in_flight.pop(number) for number in mine[1:2]}
            effects = right(self, event, now)
            self.in_flight.update(kept)
            return effects

        return left

    _router(patch, "_server_left", make)


@mutant
def a_job_is_lost(patch: Patch) -> None:
    """The router keeps to itself that it has ended."""
    right = RouterCore.handle

    def handle(self: RouterCore, event: Any, now: float) -> list[Any]:
        effects = right(self, event, now)
        return [] if type(event) is End and event.job % 17 == 0 else list(effects)

    patch.setattr(RouterCore, "handle", handle)


# -- pull-messages ---------------------------------------------------------------------------------------


@mutant
def a_pull_message_is_used_twice(patch: Patch) -> None:
    """The policy does not drop it."""
    patch.setattr(Pull, "_drop", lambda self, message: None)


@mutant
def messages_of_a_draining_server_stay(patch: Patch) -> None:
    """The policy is not told that it drains, and goes on choosing it."""

    def make(right: Any) -> Any:
        def draining(self: RouterCore, event: Any, now: float) -> Any:
            self.draining.add(event.server)
            return []

        return draining

    _router(patch, "_server_draining", make)


# -- incarnations ----------------------------------------------------------------------------------------


@mutant
def no_epoch_is_checked(patch: Patch) -> None:
    """What comes by a link that is closed is taken for the word of the next incarnation."""
    right = RouterProcess._take

    def take(self: RouterProcess, port: Port, what: Any, now: float) -> None:
        if port.closed and type(what) is not Lost and getattr(what, "server", None) in self.core.servers:
            self._handle(what, None, now)
        else:
            right(self, port, what, now)

    patch.setattr(RouterProcess, "_take", take)


@mutant
def a_view_is_kept_when_a_server_comes_back(patch: Patch) -> None:
    """The router knows it again."""
    right = RouterCore._server_joined

    def joined(self: RouterCore, event: Any, now: float) -> Any:
        known = self.__dict__.setdefault("known", {})
        former = known.get(event.server.id)
        known[event.server.id] = event.server
        if former is not None:
            event.server.view = former.view
        return right(self, event, now)

    patch.setattr(RouterCore, "_server_joined", joined)


@mutant
def a_process_comes_back_while_its_former_link_is_up(patch: Patch) -> None:
    """Its servers join twice."""

    def admit(self: RouterProcess, port: Port, hello: Any, now: float) -> None:
        self.introduce(port, hello, now)

    patch.setattr(RouterProcess, "_admit", admit)


# -- choices ---------------------------------------------------------------------------------------------


@mutant
def the_last_server_starves(patch: Patch) -> None:
    """A draw that is off by one never gives the last of several."""

    def draw(self: Population[Any], rng: Any) -> Any:
        items = self.items
        return items[int(rng.random() * max(1, len(items) - 1))]

    patch.setattr(RandomPolicy, "on_arrival", lambda self, job: Assign(draw(self._servers, self.rng)))


@mutant
def the_last_weight_is_lost(patch: Patch) -> None:
    """A table of shares that ends too soon."""
    right = WeightedDraw.draw

    def draw(self: WeightedDraw[Any], rng: Any) -> Any:
        found = right(self, rng)
        return self._items[0] if found is self._items[-1] else found

    patch.setattr(WeightedDraw, "draw", draw)


@mutant
def the_last_server_is_never_asked(patch: Patch) -> None:
    """Of more than d."""

    def some(population: Population[Any], d: int, replacement: bool, rng: Any) -> list[Any]:
        few: Population[Any] = Population()
        for item in population.items[: max(1, len(population) - 1)]:
            few.add(item)
        return sample(few, d, replacement, rng)

    patch.setattr(power_of_d, "sample", some)


@mutant
def the_first_of_equal_answers_is_taken(patch: Patch) -> None:
    """In the order of the names."""
    right = MaxVacancy.on_reports

    def on_reports(self: MaxVacancy, job: Any, answers: Any) -> Any:
        most = max(server.capacity - length for server, length in answers)
        equal = [answer for answer in answers if answer[0].capacity - answer[1] == most]
        return right(self, job, [min(equal, key=lambda answer: answer[0].id)])

    patch.setattr(MaxVacancy, "on_reports", on_reports)


@mutant
def ties_go_to_the_first(patch: Patch) -> None:
    """Of equals the one that has been there longest is always taken."""

    def choose(self: LeastLoaded[Any], rng: Any) -> Any:
        found = min(
            (bucket[0] for bucket in self._buckets.values() if bucket), key=lambda entry: entry.rank, default=None
        )
        return found and min(found.bucket, key=lambda entry: entry.server.id)

    patch.setattr(LeastLoaded, "choose", choose)


@mutant
def retries_are_off_by_one(patch: Patch) -> None:
    """A lost job is dispatched once more than it may be."""
    right = Flights.__init__

    def init(self: Flights, *arguments: Any, **more: Any) -> None:
        right(self, *arguments, **more)
        self._retries += 1

    patch.setattr(Flights, "__init__", init)


@mutant
def a_retry_goes_to_the_same_server(patch: Patch) -> None:
    """Nobody looks where the job was before."""
    right = Members.draw
    patch.setattr(Members, "draw", lambda self, rng, tried=(): right(self, rng))


@mutant
def a_job_is_served_twice(patch: Patch) -> None:
    """Although its service may have begun, and it may be served only once."""

    def make(right: Any) -> Any:
        return lambda self, record, started: right(self, record, started=False)

    _router(patch, "_again", make, Flights)


@mutant
def a_server_that_is_set_aside_is_chosen(patch: Patch) -> None:
    """No policy is told."""
    patch.setattr(Members, "_may_not_be_chosen", lambda self, server: self.chosen.remove(server))


@mutant
def nothing_is_forgiven(patch: Patch) -> None:
    """A server that was set aside stays there."""
    patch.setattr(FailureMemory, "forgive", lambda self, event: None)


@mutant
def a_rate_that_changes_is_not_noticed(patch: Patch) -> None:
    """The policy goes on with the old one."""
    patch.setattr(Members, "rate", lambda self, server, rate: None)


@mutant
def a_length_is_misread(patch: Patch) -> None:
    """By one, whenever a server reports it."""

    def make(right: Any) -> Any:
        return lambda self, event, now: right(self, event._replace(length=event.length + 1), now)

    _router(patch, "_report", make)
