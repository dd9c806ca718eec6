"""Weights that follow from the whole scenario, which a router does not know."""

from __future__ import annotations

from router.protocol.errors import SettingsError
from services.scenario import Scenario


def with_weights(scenario: Scenario) -> Scenario:
    """Put the best weights in place of `weights = "optimal"`; any other scenario is returned as it is.

    Raises:
        SettingsError: They are not known for such servers.
    """
    if scenario.policy_name != "weighted_random" or scenario.policy.get("weights") != "optimal":
        return scenario
    # The models need scipy, which takes long to import.
    from services.solver.rules import optimal_weights

    try:
        weights = optimal_weights(scenario)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    return scenario.with_policy({**scenario.policy, "weights": weights})
