"""Mistakes put into the code on purpose, each of which the swarm must find."""

from tests.swarm import mutants_routers, mutants_servers, mutants_upkeep
from tests.swarm.mutant import MUTANTS

__all__ = ["MUTANTS", "mutants_routers", "mutants_servers", "mutants_upkeep"]
