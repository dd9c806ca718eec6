"""Who may speak to a process: whoever has the token of the cluster, and without a token whoever is on this machine.

The token comes from a file or from the environment, never from a command line, which everybody on a machine can read.
"""

from __future__ import annotations

import hmac
import os
import re
from collections import Counter
from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from router.protocol.errors import SettingsError

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest

TOKEN = "HERDLESS_TOKEN"
TOKEN_FILE = "HERDLESS_TOKEN_FILE"

KINDS = ("page", "token")
"""Why a request is refused: it comes from a web page while no token is asked for, or it has none, or another one."""

CHALLENGE = 'Bearer realm="herdless"'
"""The header WWW-Authenticate of a refusal."""

_SHORTEST, _LONGEST = 16, 1024
_LONGEST_FILE = 1 << 16
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, section 2.1
_HOW = f"--token-file FILE, {TOKEN_FILE} or {TOKEN}"


class Access:
    """What lets a request in.

    Args:
        token: The secret of the cluster; `None`: there is none, and everybody who reaches the process may.

    Attributes:
        refused: Requests that were refused, by path and kind: one of `KINDS`.
    """

    def __init__(self, token: str | None) -> None:
        self.refused: Counter[tuple[str, str]] = Counter()
        self._token = None if token is None else token.encode()

    def __repr__(self) -> str:
        # Never the token: this may stand in a log.
        return f"Access({'a token' if self.needed else None})"

    @property
    def needed(self) -> bool:
        """Whether a token is asked for."""
        return self._token is not None

    def allows(self, headers: Mapping[str, str]) -> bool:
        """Whether these headers of a request hold the token; takes as long for every wrong one."""
        if self._token is None:
            return True
        scheme, _, found = headers.get("Authorization", "").partition(" ")
        # Bytes that are no text come as surrogates, which only this way back takes.
        given = found.strip().encode("utf-8", "surrogateescape")
        return hmac.compare_digest(given, self._token) and scheme.lower() == "bearer"

    def refuse(self, request: BaseRequest, path: str) -> tuple[int, str, str] | None:
        """Count and explain a request that may not come in: status, kind, message; `None`: it may.

        Args:
            request: Nothing but its head is read.
            path: Of its route, by which the refusal is counted.
        """
        if not self.allows(request.headers):
            status, kind, fault = 401, "token", request_fault(request.headers)
        elif fault := self.page_fault(request):
            status, kind = 403, "page"
        else:
            return None
        self.refused[path, kind] += 1
        return status, kind, f"{request.method} {request.path:.80}: {fault}"

    def page_fault(self, request: BaseRequest) -> str:
        """What speaks against a request that a web page may have sent; empty: nothing.

        Rule: without a token, whoever is on this machine may, but not the web pages that are open in a browser here:
        they come from anywhere, and browsers let them send jobs, and speak by WebSocket, to whomever they like.
        """
        if self.needed or "Origin" not in request.headers:
            return ""
        return "web pages may change something only with a token: leave Origin out"

    def refusals(self) -> dict[str, int]:
        """How many requests were refused, by kind."""
        return {kind: sum(n for (_, each), n in self.refused.items() if each == kind) for kind in KINDS}

    def headers(self) -> dict[str, str]:
        """What a client sends with each request."""
        return {} if self._token is None else {"Authorization": f"Bearer {self._token.decode()}"}


def access_from_environment() -> Access:
    """What lets a request in, with the token of `token_from_environment`."""
    return Access(token_from_environment())


def token_from_environment() -> str | None:
    """The token that the environment of this process says now; `None`: there is none.

    Rule: an empty variable says nothing while the other one has a token. Alone it is a mistake: whoever sets it means
    to have a token, and would have none.

    Raises:
        SettingsError: The file cannot be read, or what it holds is no token; or a variable is set, but empty.
    """
    if name := os.environ.get(TOKEN_FILE):
        try:
            with Path(name).open(encoding="ascii") as file:
                # With blanks around the token; there are files that have no end.
                return _checked(file.read(_LONGEST_FILE).strip(), f"the file {name}")
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or "it is not plain text"
            raise SettingsError(f"{TOKEN_FILE} = {name}: the token cannot be read: {why}") from None
    if token := os.environ.get(TOKEN):
        return _checked(token, TOKEN)
    for variable in (TOKEN_FILE, TOKEN):
        if variable in os.environ:
            raise SettingsError(f"{variable} is set, but empty: give it a value, or unset it if no token is wanted")
    return None


def _checked(token: str, where: str) -> str:
    """The token, unless it is none; what it is stands in no message."""
    if not _SHORTEST <= len(token) <= _LONGEST:
        raise SettingsError(
            f"{where} holds {len(token)} characters: expected a token of {_SHORTEST} to {_LONGEST}, "
            "which nobody can guess: herdless token FILE makes one"
        )
    if not _TOKEN.fullmatch(token):
        raise SettingsError(f"{where} holds no token: expected one word of letters, digits and . _ ~ + / -")
    return token


def bind_fault(address: str, access: Access) -> str:
    """What speaks against listening at an IP address; empty: nothing.

    Rule: without a token, at the loopback addresses only.
    """
    if access.needed or _is_loopback(address):
        return ""
    return f"without a token only this machine may be listened to: set one ({_HOW}), or choose --host 127.0.0.1"


def request_fault(headers: Mapping[str, str]) -> str:
    """What to tell a client whose request has not the token."""
    wrong = "another token than this process has" if "Authorization" in headers else "no token"
    return f"{wrong}: expected the header Authorization: Bearer TOKEN (herdless takes it from {_HOW})"


def _is_loopback(address: str) -> bool:
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return ip.is_loopback
