"""The `herdless` command."""

from services.cli.main import main, run_command

__all__ = ["main", "run_command"]
