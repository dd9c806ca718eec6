"""A scenario in virtual time in which things may go wrong: its processes, with the links of the live system."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

from router.core import EndJob, JobArrived, RouterCore
from router.policy import Job
from router.protocol.errors import InvariantViolation
from router.registry import make_policy
from server.backoff import Backoff
from server.core import ServerCore
from services.scenario import Scenario
from services.scenario_faults import HEARTBEAT_S, SILENCE
from services.scenario_processes import ServersProcess as Described
from services.simulator.agenda import Agenda
from services.simulator.faults import Faults
from services.simulator.links import Hello, Link, Path
from services.simulator.network import NO_DELAY, Delays
from services.simulator.process import Process
from services.simulator.router_process import RouterProcess
from services.simulator.servers_process import ServersProcess
from services.simulator.world import KINDS

PROBE_TIMEOUT_S = 1.0
RECONNECT_FIRST_S, RECONNECT_MOST_S = 0.05, 2.0
HANDSHAKE_LIMIT_S = 5.0
OPEN_AFTER_S = 1.0
DRAIN_LIMIT_S = 30.0
CEILING = 100_000
"""As the settings of routers and server processes have them."""

LOST_WITH_LINK, NO_ROUTER = "link_lost", "no_router"
"""Why a job fails at its generator: its router has ended, or there was none."""


class FaultyWorld:
    """The processes of a scenario, their links, and what happens to them.

    Rule: a new incarnation runs at once. A job that dies with its router ends as `failed: link_lost`, one that is sent
    to a dead router as `failed: no_router`, as at the live generator.

    Units: time units.

    Args:
        scenario: With its faults.
        ended: Called with each `EndJob` and its instant.
        delays: Of messages, if nothing is wrong.
        replication: As in `simulate`.
        wrap: Puts something around each core, to watch it.
        options: Further arguments of router cores, by name.

    Attributes:
        sent: Messages sent so far, by class. `ended`: jobs ended so far.
        cores: The cores of all routers that ever were.
        routers, servers: The processes, by name; dead ones stay until they are started again.
        paths: The ways between them, by router and server process.
    """

    def __init__(
        self,
        scenario: Scenario,
        ended: Callable[[EndJob, float], None],
        delays: Delays = NO_DELAY,
        replication: int = 0,
        wrap: Callable[[Any], Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.agenda = Agenda()
        self.sent: dict[type, int] = dict.fromkeys(KINDS, 0)
        self.ended = 0
        self.cores: list[RouterCore] = []
        self.routers: dict[str, RouterProcess] = {}
        self.servers: dict[str, ServersProcess] = {}
        self._scenario = scenario
        self._on_end = ended
        self._delays = delays.router_server, delays.server_router
        self._suffix = f":{replication}" if replication else ""
        self._wrap = wrap or (lambda core: core)
        limits = {"probe_timeout": PROBE_TIMEOUT_S / scenario.time_unit_s, "ceiling": CEILING}
        self._options: dict[str, Any] = limits | scenario.routers.upkeep | dict(options or {})
        self._epoch = 0
        self.paths: dict[tuple[str, str], Path] = {}
        unit_s = scenario.time_unit_s
        self.heartbeat = HEARTBEAT_S / unit_s
        self.silence = SILENCE * self.heartbeat
        self.handshake_limit = HANDSHAKE_LIMIT_S / unit_s
        self.open_after = OPEN_AFTER_S / unit_s
        self.drain_limit = DRAIN_LIMIT_S / unit_s
        self._described = {process.name: process for process in scenario.processes()}
        self._added = iter([process for process in self._described.values() if process.added_at is not None])
        self._begin()

    # -- time ---------------------------------------------------------------------------------

    def schedule(self, at: float, act: Callable[[Any, float], object], what: Any) -> None:
        """Call `act` at an instant."""
        self.agenda.at(at, act, what)

    def run(self, arrivals: Iterator[tuple[float, str, Any]]) -> None:
        """Send each job to its router at its instant, and do all that is due until then."""
        submit = self._submit
        self.agenda.run((at, submit, (router, event)) for at, router, event in arrivals)

    def run_until(self, instant: float) -> None:
        """Let everything happen that is due by then."""
        self.agenda.run_until(instant)

    def run_out(self, jobs: int) -> None:
        """Let things happen until so many jobs have ended."""
        while self.ended < jobs:
            if not self.agenda.run_next():
                raise InvariantViolation(f"nothing happens any more, but only {self.ended} of {jobs} jobs have ended")

    # -- processes ----------------------------------------------------------------------------

    def _begin(self) -> None:
        """Start everything, with all links up, then let every server post its first pull-message."""
        for name in self._scenario.router_names():
            self._start_router(name)
        for process in self._described.values():
            if process.added_at is None:
                self._start_servers(process).opened = True
        for servers in self.servers.values():
            for router in self.routers.values():
                self.agenda.run([(0.0, self._link_at_start, (router, servers))])
        for servers in self.servers.values():
            self.agenda.run([(0.0, _open, servers)])
        faults = Faults(self)
        for fault in self._scenario.timeline():
            self.agenda.at(fault.at, faults.apply, fault)
        if self._scenario.faults:
            self.agenda.at(self._scenario.horizon, faults.mend, None)

    def _start_router(self, name: str) -> RouterProcess:
        scenario = self._scenario
        self._epoch += 1
        policy = make_policy(scenario.policy, Random(f"{scenario.seed}:{name}:policy{self._suffix}"))
        core = RouterCore(name, policy, **self._options)
        self.cores.append(core)
        process = self.routers[name] = RouterProcess(self, name, self._epoch, self._wrap(core), policy)
        return process

    def _start_servers(self, described: Described) -> ServersProcess:
        scenario, patience = self._scenario, self._scenario.patience
        self._epoch += 1
        specs = described.specs()
        cores = {
            spec.id: self._wrap(
                ServerCore(
                    spec,
                    Random(f"{scenario.seed}:{spec.id}:routers{self._suffix}"),
                    abandons_in_service=patience is not None and patience.in_service,
                    ceiling=CEILING,
                    now=self.agenda.now,
                )
            )
            for spec in specs
        }
        hello = Hello(described.name, self._epoch, specs)
        process = self.servers[described.name] = ServersProcess(self, described.name, self._epoch, cores, hello)
        return process

    def restart(self, process: Process, now: float) -> None:
        """Start another incarnation of a process, which ends if it runs."""
        self.end_process(process, now)
        if isinstance(process, RouterProcess):
            self._start_router(process.name)
        else:
            self._start_servers(self._described[process.name]).dial_all(now)

    def add(self, now: float) -> None:
        """Start the next one of the processes that are not there from the beginning."""
        self._start_servers(next(self._added)).dial_all(now)

    def end_process(self, process: Process, now: float) -> None:
        """A process is gone; the jobs of a router are lost."""
        if not process.alive:
            return
        process.end(now)
        if isinstance(process, RouterProcess):
            for job in list(process.open.values()):
                self._fail(job, LOST_WITH_LINK, now)
            process.open.clear()

    def backoff(self, servers: str, router: str) -> Backoff:
        """The pauses between attempts to dial a router."""
        unit_s = self._scenario.time_unit_s
        rng = Random(f"{self._scenario.seed}:{servers}:backoff:{router}{self._suffix}")
        return Backoff(RECONNECT_FIRST_S / unit_s, RECONNECT_MOST_S / unit_s, rng)

    # -- jobs ---------------------------------------------------------------------------------

    def end_job(self, process: Process, effect: EndJob, now: float) -> None:
        """A router gives a job back."""
        assert isinstance(process, RouterProcess)
        process.ended(effect.job.id)
        self.ended += 1
        self._on_end(effect, now)

    def _submit(self, router_and_event: tuple[str, JobArrived], now: float) -> None:
        name, event = router_and_event
        router = self.routers[name]
        if router.alive:
            router.submit(event, now)
        else:
            self._fail(event.job, NO_ROUTER, now)

    def _fail(self, job: Job, reason: str, now: float) -> None:
        self.ended += 1
        self._on_end(EndJob(job, "failed", reason, None, None, "", False), now)

    # -- links --------------------------------------------------------------------------------

    def connect(self, router: str, servers: ServersProcess) -> Link | None:
        """Dial; `None`: in vain."""
        process = self.routers[router]
        path = self.path(router, servers.name)
        if not process.alive or process.hung or path.cut:
            return None
        return self._link(path, process, servers)

    def _link(self, path: Path, router: RouterProcess, servers: ServersProcess) -> Link:
        path.links = [link for link in path.links if not all(port.closed for port in link.ports)]
        link = Link(self.agenda, path, router, servers, self.delays_of_link())
        router.accept(link.to_servers)
        return link

    def delays_of_link(self) -> tuple[float, float]:
        """How long messages of a new link are under way, to the servers and to the router."""
        return self._delays

    def _link_at_start(self, ends: tuple[RouterProcess, ServersProcess], now: float) -> None:
        router, servers = ends
        link = self._link(self.path(router.name, servers.name), router, servers)
        router.introduce(link.to_servers, servers.hello, now)
        servers.join(link.to_router, router.needs, router.epoch, now)

    def path(self, router: str, servers: str) -> Path:
        """The way between a router and a server process."""
        return self.paths.setdefault((router, servers), Path())


def _open(servers: ServersProcess, now: float) -> None:
    servers.open(now)
