"""What the timeline of a scenario says, done to the processes and paths of a world in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from services.scenario_faults import Fault
from services.simulator.links import Path
from services.simulator.process import Process
from services.simulator.servers_process import ServersProcess

if TYPE_CHECKING:
    from services.simulator.faulty_world import FaultyWorld


class Faults:
    """Lets faults happen, and mends what is left of them when the run is over, so that all can end.

    Args:
        world: That they strike.
    """

    def __init__(self, world: FaultyWorld) -> None:
        self._world = world

    def apply(self, fault: Fault, now: float) -> None:
        """One fault happens."""
        world = self._world
        if fault.between is not None:
            self._strike_path(fault, world.path(*fault.between), now)
        elif fault.kind == "add":
            world.add(now)
        else:
            assert fault.target is not None
            process: Process | None = world.routers.get(fault.target) or world.servers.get(fault.target)
            if process is None:
                self._strike_server(fault, fault.target, now)
            else:
                self._strike_process(fault, process, now)

    def mend(self, _: None, now: float) -> None:
        """Whatever hangs, is cut or disturbed goes on as it should."""
        world = self._world
        for path in world.paths.values():
            path.heal(now)
        for process in [*world.routers.values(), *world.servers.values()]:
            if process.hung:
                process.resume(now)
        for servers in world.servers.values():
            for server in servers.cores:
                servers.disturb(server, {}, now)

    def _strike_path(self, fault: Fault, path: Path, now: float) -> None:
        match fault.kind:
            case "cut" if fault.half_open:
                path.fall_silent(now, self._world.heartbeat, self._world.silence)
            case "cut":
                path.break_off(now)
            case "heal":
                path.heal(now)
            case "delay":
                path.delay = fault.delay or 0.0

    def _strike_process(self, fault: Fault, process: Process, now: float) -> None:
        match fault.kind:
            case "kill":
                self._world.end_process(process, now)
            case "restart":
                self._world.restart(process, now)
            case "hang":
                if process.alive and not process.hung:
                    process.hang(now)
            case "drain":
                if process.hung:
                    process.resume(now)  # else it would not hear
                process.drain(now)
            case "resume" if process.hung:
                process.resume(now)
        if isinstance(process, ServersProcess):
            for server in process.cores:
                self._disturb(fault, process, server, now)

    def _strike_server(self, fault: Fault, server: str, now: float) -> None:
        process = next(process for process in self._world.servers.values() if server in process.cores)
        if fault.kind == "hang":
            process.disturb(server, {"hung": True}, now)
        else:
            self._disturb(fault, process, server, now)

    def _disturb(self, fault: Fault, process: ServersProcess, server: str, now: float) -> None:
        match fault.kind:
            case "slow":
                process.disturb(server, {"slow": fault.factor}, now)
            case "fail":
                process.disturb(server, {"failing": True}, now)
            case "resume":
                process.disturb(server, {}, now)
