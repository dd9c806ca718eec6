"""The entry point: one command line in, one exit code out, and no traceback for a mistake of the user."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

import typer

from router.process.ending import stop_at_once
from router.protocol.errors import HerdlessError, SettingsError
from services.cli import access, audit, console, deploy, experiments, inventory, processes, studies
from services.cli.options import EXIT_INTERRUPTED, EXIT_RUN_INVALID, EXIT_USER_MISTAKE, say

HELP = """A live laboratory for load balancing with many routers: measured, simulated and predicted, side by side.

Exit codes: 0 nothing differs; 1 something differs; 2 a mistake of yours; 3 the run is invalid;
4 an audit could not check everything; 130 interrupted.
"""

# What a wrong command line raises; its module is typer's own or click's, depending on typer's version.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(name="herdless", help=HELP, add_completion=False, pretty_exceptions_enable=False)

for _command in (
    experiments.run, experiments.simulate, experiments.solve, console.up, inventory.policy, inventory.policies,
    inventory.scenarios, studies.compare, studies.sweep, audit.audit, audit.story,
    processes.router, processes.server, processes.load,
    deploy.exporter, console.console, access.token,
):  # fmt: skip
    app.command()(_command)
app.add_typer(deploy.app, name="deploy")


def main() -> None:
    """Run the command that was typed."""
    # SIGTERM ends a command as Ctrl-C does. A shell starts background jobs with SIGINT ignored, which would make
    # them impossible to end in order. Routers, servers and generators have handlers of their own.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = run_command(sys.argv[1:])
    except KeyboardInterrupt:  # once more, while it was ending on account of the first one
        code = EXIT_INTERRUPTED
    stop_at_once(code)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has gone; Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line; return its exit code."""
    arguments, as_json = list(arguments), "--json" in arguments
    try:
        command = typer.main.get_command(app)
        code = command.main(arguments or ["--help"], prog_name="herdless", standalone_mode=False)
        if code == EXIT_INTERRUPTED:  # what newer versions of typer make of Ctrl-C
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except _UsageError as error:
        # Of an error that is found by its place among the ancestors of another one, mypy knows no method.
        message = f"{error.format_message()} (herdless --help)"  # type: ignore[attr-defined]
        return _complain("usage", message, EXIT_USER_MISTAKE, as_json)
    except (typer.Abort, KeyboardInterrupt):
        if arguments[:1] == ["up"]:  # its proper end, and it has said its one JSON object
            return EXIT_INTERRUPTED
        return _complain("interrupted", "interrupted", EXIT_INTERRUPTED, as_json)
    except SettingsError as error:
        return _complain("settings", str(error), EXIT_USER_MISTAKE, as_json)
    except HerdlessError as error:
        code = getattr(error, "exit_code", EXIT_RUN_INVALID)
        return _complain(getattr(error, "kind", "failed"), str(error), code, as_json)
    except ValueError as error:
        if type(error).__name__ != "TraceError":  # its module needs numpy, which most commands do not load
            raise
        return _complain("trace", str(error), EXIT_USER_MISTAKE, as_json)


def _complain(kind: str, message: str, code: int, as_json: bool) -> int:
    if as_json:
        say({"error": {"kind": kind, "message": message}})
    else:
        sys.stderr.write(f"herdless: {message}\n")
    return code
