"""Laws of service requirements and of patience, each with mean exactly 1.

A job of size x occupies a slot of a server with rate r for x / r time units; a patience law is the same thing
divided by the patience rate. So one law, stated once, serves every server and every scenario.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

# Beyond this the formulas below lose their digits, and no run is long enough to see the law.
LARGEST_PARAMETER = 1e6


@dataclass(frozen=True)
class Law(ABC):
    """A law of positive numbers with mean 1.

    Units: what it draws is in time units at rate 1.

    Attributes:
        name: What the scenario calls it.
        limits: The exclusive lower limit of each parameter.
        scv: The squared coefficient of variation, variance over squared mean; `inf` if infinite.
    """

    name: ClassVar[str]
    limits: ClassVar[dict[str, float]] = {}

    scv: float

    @abstractmethod
    def draw(self, rng: Random) -> float:
        """Draw one value, with one or two calls of `rng`.

        Units: time units at rate 1.
        """


@dataclass(frozen=True)
class Exponential(Law):
    """The memoryless law."""

    name = "exponential"
    scv: float = field(default=1.0, init=False)

    def draw(self, rng: Random) -> float:
        """Draw one value.

        Units: time units at rate 1.
        """
        return rng.expovariate(1.0)


@dataclass(frozen=True)
class Deterministic(Law):
    """Always 1; draws nothing from the generator."""

    name = "deterministic"
    scv: float = field(default=0.0, init=False)

    def draw(self, rng: Random) -> float:
        """Return 1.

        Units: time units at rate 1.
        """
        return 1.0


@dataclass(frozen=True)
class Hyperexponential(Law):
    """A mixture of two exponential laws with balanced means: each brings half of the mean.

    Rule: with probability p an exponential of rate 2p, else one of rate 2(1 − p), where
    p = (1 + √((scv − 1) / (scv + 1))) / 2. Then the mean is 1/2 + 1/2 and the second moment is 1 + scv.
    """

    name = "hyperexponential"
    limits: ClassVar[dict[str, float]] = {"scv": 1.0}
    short_share: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        share = (1.0 + math.sqrt((self.scv - 1.0) / (self.scv + 1.0))) / 2.0
        object.__setattr__(self, "short_share", share)

    def draw(self, rng: Random) -> float:
        """Draw one value.

        Units: time units at rate 1.
        """
        p = self.short_share
        return rng.expovariate(2.0 * p if rng.random() < p else 2.0 * (1.0 - p))


@dataclass(frozen=True)
class Lognormal(Law):
    """The exponential of a normal value of variance σ² = ln(1 + scv) and mean −σ²/2."""

    name = "lognormal"
    limits: ClassVar[dict[str, float]] = {"scv": 0.0}
    mu: float = field(init=False, repr=False)
    sigma: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        variance = math.log1p(self.scv)
        object.__setattr__(self, "mu", -variance / 2.0)
        object.__setattr__(self, "sigma", math.sqrt(variance))

    def draw(self, rng: Random) -> float:
        """Draw one value.

        Units: time units at rate 1.
        """
        return math.exp(rng.gauss(self.mu, self.sigma))


@dataclass(frozen=True)
class Pareto(Law):
    """A power tail: P(X > x) = (x₀ / x)^shape for x ≥ x₀ = (shape − 1) / shape.

    With shape ≤ 2 the variance is infinite, and means over any feasible run converge slowly.
    """

    name = "pareto"
    limits: ClassVar[dict[str, float]] = {"shape": 1.0}
    scv: float = field(init=False)
    shape: float

    def __post_init__(self) -> None:
        scv = 1.0 / (self.shape * (self.shape - 2.0)) if self.shape > 2.0 else math.inf
        object.__setattr__(self, "scv", scv)

    def draw(self, rng: Random) -> float:
        """Draw one value.

        Units: time units at rate 1.
        """
        return (self.shape - 1.0) / self.shape * rng.paretovariate(self.shape)


LAWS: dict[str, type[Law]] = {
    law.name: law for law in (Exponential, Deterministic, Hyperexponential, Lognormal, Pareto)
}


def make_law(name: str, **parameters: float) -> Law:
    """Make the law of that name.

    Args:
        name: One of `LAWS`.
        parameters: What that law needs and nothing else: `scv` or `shape`, or nothing.

    Returns:
        The law, with mean 1.

    Raises:
        ValueError: The name is unknown, or a parameter is unknown, missing or out of its range.
    """
    law = LAWS.get(name)
    if law is None:
        raise ValueError(f'unknown law "{name}": choose one of {known_laws()}')
    unknown = [parameter for parameter in parameters if parameter not in law.limits]
    missing = [parameter for parameter in law.limits if parameter not in parameters]
    if unknown or missing:
        found = ", ".join(parameters) or "none"
        raise ValueError(f"law {_described(law)}: parameters found: {found}; known laws: {known_laws()}")
    for parameter, limit in law.limits.items():
        value = parameters[parameter]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not limit < value <= LARGEST_PARAMETER:
            raise ValueError(
                f'law "{name}": {parameter} = {value!r}, but it must be a number > {limit:g} '
                f"and at most {LARGEST_PARAMETER:g}"
            )
    return law(**{parameter: float(parameters[parameter]) for parameter in law.limits})


def known_laws() -> str:
    """Return the known laws with their parameters, as one line for messages."""
    return ", ".join(_described(law) for law in LAWS.values())


def _described(law: type[Law]) -> str:
    limits = ", ".join(f"{parameter} > {limit:g}" for parameter, limit in law.limits.items())
    return f'"{law.name}" ({limits or "no parameters"})'
