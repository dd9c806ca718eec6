"""Round robin: each server in its turn."""

from __future__ import annotations

from random import Random

from router.policy import Assign, Job, Parameters, Policy, Server


class RoundRobin(Policy):
    """Sends each job to the server whose turn it is.

    Rule: servers take turns in order of joining, beginning at a uniformly random one, so that routers which start
    alike do not walk in step. A server that joins has its turn when the pass that is under way ends; one that leaves
    takes nobody's turn away. It measures nothing, so there are no ties, and it never skips a full server.
    Equalises: the number of jobs that *this router* sends to each server, whatever its rate, and to within one. With
    several routers the passes are independent, so a server sees a superposition of them.
    Needs: nothing; no control message. A decision is O(1), a change of membership O(n).
    Source: Ephremides, Varaiya, Walrand 1980, "A simple dynamic routing problem", doi:10.1109/TAC.1980.1102445.
    """

    name = "round_robin"

    def __init__(self, parameters: Parameters, rng: Random) -> None:
        super().__init__(parameters, rng)
        self._servers: list[Server] = []
        self._next = -1  # before the first job

    def on_join(self, server: Server) -> None:
        """Its turn comes at the end of the pass."""
        self._servers.append(server)

    def on_leave(self, server: Server) -> None:
        """Close the gap, so that the next in turn stays the same."""
        place = self._servers.index(server)
        del self._servers[place]
        if place < self._next:
            self._next -= 1

    def on_arrival(self, job: Job) -> Assign:
        """Take the next in turn."""
        servers = self._servers
        if self._next < 0:
            self._next = int(self.rng.random() * len(servers))
        elif self._next >= len(servers):
            self._next = 0
        server = servers[self._next]
        self._next += 1
        return Assign(server)
