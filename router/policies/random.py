"""Random splits: each job goes to a server drawn independently of everything else."""

from __future__ import annotations

from random import Random
from typing import Annotated, Literal

from pydantic import Field

from router.choice import Population, WeightedDraw
from router.policy import Assign, Fleet, Job, Parameters, Policy, Server
from router.protocol.errors import SettingsError

Weight = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class RandomPolicy(Policy):
    """Sends each job to a uniformly random server.

    Rule: one draw over all servers of all pools, independent of the others, with replacement; it measures nothing,
    so there are no ties, and it never skips a full server.
    Equalises: the expected number of jobs sent to each server, whatever its rate: slow servers are the busier ones.
    Needs: nothing; no control message.
    Source: splitting of a Poisson process, Kleinrock 1975, section 2.4.
    """

    name = "random"

    def __init__(self, parameters: Parameters, rng: Random) -> None:
        super().__init__(parameters, rng)
        self._servers: Population[Server] = Population()

    def on_join(self, server: Server) -> None:
        """One more to draw from."""
        self._servers.add(server)

    def on_leave(self, server: Server) -> None:
        """One less to draw from."""
        self._servers.remove(server)

    def on_arrival(self, job: Job) -> Assign:
        """Draw a server."""
        return Assign(self._servers.draw(self.rng))


class WeightedRandomParameters(Parameters):
    """Parameters of `weighted_random`.

    Attributes:
        weights: The weight of each server: its `rate` (that of one slot), its `capacity`, or the entry for its pool in
            a list that follows the scenario's pools. `optimal`: the list that loses fewest jobs; whoever has the
            scenario computes it and hands the list to the routers.
    """

    weights: Literal["rate", "capacity", "optimal"] | list[Weight] = "rate"

    def check(self, fleet: Fleet) -> None:
        """Raise `SettingsError` unless the weights say how to share out the jobs of this fleet."""
        if self.weights == "capacity" and float("inf") in fleet.capacities:
            pool = fleet.pools[fleet.capacities.index(float("inf"))]
            raise SettingsError(
                f'policy.weights = "capacity", but pool "{pool}" has capacity "inf": '
                f'choose policy.weights = "rate", or give the pool a finite capacity'
            )
        if isinstance(self.weights, list):
            if len(self.weights) != len(fleet.pools):
                raise SettingsError(
                    f"policy.weights = {self.weights} has {len(self.weights)} entries, but there are "
                    f"{len(fleet.pools)} pools ({', '.join(fleet.pools)}): give one weight a pool"
                )
            if not any(self.weights):
                raise SettingsError(f"policy.weights = {self.weights}: expected at least one weight above 0")


class WeightedRandom(Policy):
    """Sends each job to a random server, drawn in proportion to fixed weights.

    Rule: one draw by weight over all servers, independent of the others, with replacement; it measures nothing, so
    there are no ties, and it never skips a full server. A weight is that of one *server*: a pool's share of the jobs
    is its weight times its number of servers, over the sum of that. A pool without an entry in a list has weight 0.
    Equalises: with `rate`, the utilisation of servers with equally many slots; not their queues.
    Needs: nothing; no control message.
    Source: static splits; the optimal one equalises marginal loss (models of loss systems, Mukhopadhyay, Mazumdar,
    Guillemin 2015, doi:10.1109/ITC.2015.22).
    """

    name = "weighted_random"
    parameters_type = WeightedRandomParameters
    parameters: WeightedRandomParameters

    def __init__(self, parameters: WeightedRandomParameters, rng: Random) -> None:
        super().__init__(parameters, rng)
        if parameters.weights == "optimal":
            raise SettingsError(
                'policy.weights = "optimal" follows from the whole scenario, which a router does not know: '
                "give it the list itself, one weight a pool"
            )
        self._draw: WeightedDraw[Server] = WeightedDraw()

    def on_join(self, server: Server) -> None:
        """One more to draw from."""
        self._draw.add(server, self._weight(server))

    def on_leave(self, server: Server) -> None:
        """One less to draw from."""
        self._draw.remove(server)

    def on_rate(self, server: Server) -> None:
        """Draw it by its new weight."""
        self._draw.add(server, self._weight(server))

    def on_arrival(self, job: Job) -> Assign:
        """Draw a server by weight."""
        return Assign(self._draw.draw(self.rng))

    def _weight(self, server: Server) -> float:
        weights = self.parameters.weights
        if weights == "rate":
            return server.rate
        if weights == "capacity":
            return server.capacity
        assert isinstance(weights, list)
        return weights[server.pool_index] if server.pool_index < len(weights) else 0.0
