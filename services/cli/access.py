"""How a command is told the token of a cluster and the files of TLS; and the command that makes a token.

Options are put where the environment has them, so that each process that a command starts is told as well. The token
itself is never an option: everybody on a machine can read command lines.
"""

from __future__ import annotations

import inspect
import os
import secrets
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from router.process.access import TOKEN_FILE, access_from_environment
from router.process.tls import CA, CERT, CLIENT_CA, KEY
from router.protocol.errors import SettingsError
from services.cli.options import AsJson, Sets, say

_PANEL = "Access"
_OPTIONS = (
    ("--token-file", TOKEN_FILE, "The file with the token of the cluster."),
    ("--tls-cert", CERT, "The certificate of this process; with it, it speaks TLS."),
    ("--tls-key", KEY, "The private key of the certificate."),
    ("--tls-ca", CA, "The authorities that are believed of whoever is dialled."),
    ("--tls-client-ca", CLIENT_CA, "Whoever dials must have a certificate of these (mutual TLS)."),
)  # fmt: skip
_BYTES = 32


def with_access(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of access."""
    hints = get_type_hints(command, include_extras=True)
    signature = inspect.signature(command)
    own = [each.replace(annotation=hints[each.name]) for each in signature.parameters.values()]
    for option, variable, meaning in _OPTIONS:
        found = typer.Option(
            option, metavar="FILE", envvar=variable, help=meaning, show_default=False, rich_help_panel=_PANEL
        )
        own.append(
            inspect.Parameter(
                option.strip("-").replace("-", "_"), inspect.Parameter.KEYWORD_ONLY, default=None,
                annotation=Annotated[str | None, found],
            )
        )  # fmt: skip

    @wraps(command)
    def run(**arguments: Any) -> int:
        for option, variable, _ in _OPTIONS:
            value = arguments.pop(option.strip("-").replace("-", "_"))
            if value == "":  # of a variable that is empty, perhaps; without it less would be protected than is meant
                raise SettingsError(f'{option} "": expected the name of a file, found nothing: leave it out for none')
            if value is not None:
                os.environ[variable] = value
        access_from_environment()  # a mistake in it is told before anything is begun
        return command(**arguments)

    # `inspect`, and so typer, believes what a function has under this name; mypy knows of no such attribute.
    run.__annotations__ = {each.name: each.annotation for each in own} | {"return": int}
    run.__signature__ = signature.replace(parameters=own, return_annotation=int)  # type: ignore[attr-defined]
    return run


def token(
    file: Annotated[Path, typer.Argument(help="Where to write it; a file that is there is kept.", show_default=False)],
    set: Sets = [],  # noqa: A002, B006 - typer reads the name and the default
    as_json: AsJson = False,
) -> int:
    """Make a random token in a file that only its owner can read; it is not shown."""
    del set  # every command takes it; here there is nothing to change
    try:
        made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        made = None
    except OSError as error:
        raise SettingsError(f"{file}: the token cannot be written: {error.strerror}") from None
    if made is not None:
        with os.fdopen(made, "w", encoding="ascii") as opened:
            opened.write(secrets.token_urlsafe(_BYTES) + "\n")
    if as_json:
        say({"file": str(file), "made": made is not None})
    else:
        typer.echo(f"{file}: {'a new token' if made is not None else 'there already, kept'}")
    return 0
