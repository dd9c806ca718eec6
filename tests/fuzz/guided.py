"""One target under atheris, in this process: `python -m tests.fuzz.guided TARGET FOLDER [OPTION OF LIBFUZZER…]`."""

from __future__ import annotations

import logging
import sys
from random import Random

import atheris

with atheris.instrument_imports(include=["router", "server", "services", "tests", "json", "tomllib", "csv"]):
    from tests.fuzz.mutation import mutated
    from tests.fuzz.targets import TARGETS, check

_KEPT_FORM = 0.6
"""Share of the inputs whose values are changed and not their bytes."""


def main(name: str, options: list[str]) -> None:
    """Try inputs until libFuzzer has had enough, or one of them is neither taken nor refused."""
    target = TARGETS[name]
    logging.disable(logging.WARNING)  # refusals; mistakes of ours are logged as errors

    def one(data: bytes) -> None:
        check(target, data)

    def mutate(data: bytes, longest: int, seed: int) -> bytes:
        rng = Random(seed)
        if rng.random() < _KEPT_FORM:
            other = mutated(data, target.form, rng)
            if other is not None and len(other) <= longest:
                return other
        changed: bytes = atheris.Mutate(data, longest)
        return changed

    atheris.Setup([sys.argv[0], *options], one, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
