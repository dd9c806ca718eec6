"""The commands about what a run has left: audit, story."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from services.cli.options import EXIT_RUN_INVALID, AsJson, say


def audit(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a live run.", show_default=False)],
    as_json: AsJson = False,
) -> int:
    """Add up, job by job, what generator, routers and servers of a run have on record."""
    from services.audit.lines import audit_lines, mismatch_lines
    from services.lab.audit import audit_folder

    audited = audit_folder(run)
    found = audited.json()
    if as_json:
        say(found)
    else:
        lines = [*audit_lines(found), *mismatch_lines(found), *map(str, audited.stories)]
        sys.stdout.write("\n".join(lines) + "\n")
    return 0 if audited.found.holds else EXIT_RUN_INVALID


def story(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a run, live or simulated.", show_default=False)
    ],
    job: Annotated[int, typer.Argument(metavar="JOB", min=0, help="Its number in jobs.csv.", show_default=False)],
    as_json: AsJson = False,
) -> int:
    """Tell what happened to one job of a run, live or simulated, across all processes."""
    from services.lab.audit import story_of

    told = story_of(run, job)
    if as_json:
        say(told.json())
    else:
        sys.stdout.write("\n".join(told.lines()) + "\n")
    return 0
