"""The commands about what a run has left: audit, story."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from router.protocol.errors import SettingsError
from services.cli.options import EXIT_RUN_INVALID, EXIT_UNCHECKED, AsJson, say


def audit(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a live run.", show_default=False)],
    as_json: AsJson = False,
) -> int:
    """Add up, job by job, what generator, routers and servers of a run have on record.

    Exit codes: 0 everything adds up; 3 the books do not balance; 4 nothing, or not everything, could be checked.
    """
    from services.audit.lines import audit_lines, mismatch_lines
    from services.lab.audit import audit_folder

    audited = audit_folder(run)
    found = audited.json()
    if as_json:
        say(found)
    else:
        lines = [*audit_lines(found), *mismatch_lines(found), *map(str, audited.stories)]
        sys.stdout.write("\n".join(lines) + "\n")
    if not audited.found.holds:
        return EXIT_RUN_INVALID
    return 0 if audited.found.complete else EXIT_UNCHECKED


def story(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a run, live or simulated.", show_default=False)
    ],
    job: Annotated[str, typer.Argument(metavar="JOB", help="Its number in jobs.csv, from 0.", show_default=False)],
    as_json: AsJson = False,
) -> int:
    """Tell what happened to one job of a run, live or simulated, across all processes."""
    from services.lab.audit import story_of

    try:
        number = int(job)
    except ValueError:
        message = f"JOB = {job!r}: expected the number of a job, its row in {run / 'jobs.csv'}, from 0"
        raise SettingsError(message) from None
    told = story_of(run, number)
    if as_json:
        say(told.json())
    else:
        sys.stdout.write("\n".join(told.lines()) + "\n")
    return 0
