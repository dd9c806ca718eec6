"""Where the routers are: names become addresses, again and again, since routers come and go."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from router.process.tls import CA, found_by_name, tls_from_environment
from router.protocol.errors import SettingsError

DEFAULT_PORT = 8080

_log = logging.getLogger(__name__)


class Address(NamedTuple):
    """One IP address and port that may be dialled."""

    ip: str
    port: int
    secure: bool = False
    """Whether it is dialled by TLS."""

    @property
    def url(self) -> str:
        """The address as the beginning of a URL."""
        return f"{'https' if self.secure else 'http'}://{self}"

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


class Target(NamedTuple):
    """A router, or several behind one name, as the user gave it."""

    host: str
    port: int
    secure: bool = False


Resolve = Callable[[str, int], Awaitable[list[Address]]]


def parse_target(text: str) -> Target:
    """Read a URL (`http://router:8080`), `host:port`, or a name alone (port 8080).

    Rule: what has no scheme is dialled by TLS where files of TLS are given, else without.

    Raises:
        SettingsError: It is none of them, or TLS is asked for and nobody has said whom to trust.
    """
    by_tls = tls_from_environment().dials
    try:
        parts = urlsplit(text if "://" in text else f"//{text}", scheme="https" if by_tls else "http")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _unreadable(text, str(error)) from None
    if parts.scheme not in ("http", "ws", "https", "wss"):
        raise _unreadable(text, f"scheme {parts.scheme} is not spoken here")
    secure = parts.scheme in ("https", "wss")
    if secure and not by_tls:
        raise _unreadable(text, f"for TLS, say whom to trust: --tls-ca FILE or {CA}")
    if not host or any(letter.isspace() for letter in host):
        raise _unreadable(text, "there is no host")
    try:
        host.encode("idna")  # as a look-up would, later
    except UnicodeError:
        raise _unreadable(text, "between dots a host has 1 to 63 letters") from None
    if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username is not None:
        raise _unreadable(text, "nothing may follow or precede host and port")
    if port == 0:
        raise _unreadable(text, "port 0 cannot be dialled")
    return Target(host, DEFAULT_PORT if port is None else port, secure)


def _unreadable(text: str, why: str) -> SettingsError:
    return SettingsError(f'router "{text}": expected http://host:port, host:port or a name; {why}')


async def resolve(host: str, port: int) -> list[Address]:
    """Give all addresses of a name, or the address itself.

    Raises:
        OSError: The name has none, or nobody can say.
    """
    try:
        return [Address(str(ip_address(host)), port)]
    except ValueError:
        pass
    # IPv4 only: a name that has both kinds of address would otherwise lead to each router twice.
    found = await asyncio.get_running_loop().getaddrinfo(host, port, family=socket.AF_INET, type=socket.SOCK_STREAM)
    addresses = sorted({Address(str(sockaddr[0]), port) for *_, sockaddr in found})
    found_by_name(host, [address.ip for address in addresses])
    return addresses


class Discovery:
    """Keeps the list of addresses that the targets lead to.

    Rule: all addresses of all targets. A target that cannot be looked up keeps the addresses it had: a name
    server that fails for a moment must not cost a link.

    Args:
        targets: What the user gave.
        on_change: Told all addresses whenever they have changed, also the first time.
        every_s: How often to look up anew.
        resolve: Looks up one name.
    """

    def __init__(
        self,
        targets: Iterable[Target],
        on_change: Callable[[list[Address]], object],
        *,
        every_s: float,
        resolve: Resolve = resolve,
    ) -> None:
        self.addresses: list[Address] = []
        self.failures = 0
        self._targets = list(dict.fromkeys(targets))
        self._known: dict[Target, list[Address]] = {}
        self._on_change = on_change
        self._every_s = every_s
        self._resolve = resolve

    async def look_up(self) -> None:
        """Look all targets up once, at the same time, and tell what has changed."""
        await asyncio.gather(*(self._look_up(target) for target in self._targets))
        # A dict, not a set: the order of dialling must not depend on hashes.
        addresses = list(dict.fromkeys(address for target in self._targets for address in self._known.get(target, [])))
        if addresses != self.addresses:
            self.addresses = addresses
            self._on_change(addresses)

    async def run(self) -> None:
        """Look up again and again, until cancelled."""
        while True:
            try:
                await self.look_up()
            except Exception:
                _log.exception("looking for routers failed for a reason that is ours; it is tried again")
            await asyncio.sleep(self._every_s)

    async def _look_up(self, target: Target) -> None:
        try:
            found = await self._resolve(target.host, target.port)
            self._known[target] = [address._replace(secure=target.secure) for address in found]
        except (OSError, UnicodeError) as error:  # UnicodeError: a name that no name server could know
            self.failures += 1
            if target not in self._known:
                self._known[target] = []
                where = target.host, target.port
                _log.warning("router %s:%d cannot be looked up: %s; it is tried again", *where, error)
