"""TLS for everything that a process says and hears: its own certificate, and whom it trusts.

One set of files serves both ends, because most processes are both: a server process listens, and dials routers.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from router.protocol.errors import SettingsError

CERT = "HERDLESS_TLS_CERT"
KEY = "HERDLESS_TLS_KEY"
CA = "HERDLESS_TLS_CA"
CLIENT_CA = "HERDLESS_TLS_CLIENT_CA"
NAMES = "HERDLESS_TLS_NAMES"
"""The names by which addresses were found, `ADDRESS=NAME …`: in the environment, so that child processes know too."""


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of TLS, in PEM; empty: not given.

    Attributes:
        cert: The certificate of this process, with those between it and its authority; shown to those who dial this
            process, and to those whom it dials if they ask.
        key: Its private key; empty: it is in the same file.
        ca: The authorities whose certificates are believed of whoever is dialled; empty: those of this machine.
        client_ca: The authorities one of whose certificates everybody who dials this process must have (mutual TLS);
            empty: nobody is asked for one.
    """

    cert: str = ""
    key: str = ""
    ca: str = ""
    client_ca: str = ""

    @property
    def kind(self) -> Literal["off", "on", "mutual"]:
        """What somebody who dials this process meets."""
        return "off" if not self.cert else "mutual" if self.client_ca else "on"

    @property
    def dials(self) -> bool:
        """Whether an address without a scheme is dialled by TLS."""
        return bool(self.cert or self.ca)

    def server_context(self) -> ssl.SSLContext | None:
        """For listening; `None`: without TLS.

        Raises:
            SettingsError: A file is missing, or not what it should be.
        """
        if not self.cert:
            for value, name in ((self.key, KEY), (self.client_ca, CLIENT_CA)):
                if value:
                    raise SettingsError(f"{name} = {value}: expected a certificate too: --tls-cert or {CERT}")
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._show_certificate(context)
        if self.client_ca:
            _trust(context, self.client_ca, CLIENT_CA)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client_context(self) -> ssl.SSLContext:
        """For dialling.

        Raises:
            SettingsError: A file is missing, or not what it should be.
        """
        context = _ByName(ssl.PROTOCOL_TLS_CLIENT)  # which checks certificates, and for whom they are
        if self.ca:
            _trust(context, self.ca, CA)
        else:
            context.load_default_certs()
        if self.cert:
            self._show_certificate(context)
        return context

    def _show_certificate(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(self.cert, self.key or None, password=_no_password)
        except OSError as error:
            where = f"{CERT} = {self.cert}" + (f", {KEY} = {self.key}" if self.key else "")
            raise SettingsError(
                f"{where}: expected a certificate and its private key, without a password, in PEM: {_why(error)}"
            ) from None


def tls_from_environment() -> Tls:
    """What the environment of this process says now."""
    return Tls(*(os.environ.get(name, "") for name in (CERT, KEY, CA, CLIENT_CA)))


def found_by_name(name: str, addresses: Iterable[str]) -> None:
    """Addresses that a name led to are who they should be if their certificates are for the name.

    Replicas behind one name share a certificate, while addresses come and go and stand in none. Those that the name
    led to before are forgotten.
    """
    before = _names()
    names = {key: value for key, value in before.items() if value != name} | dict.fromkeys(addresses, name)
    if names != before and tls_from_environment().dials:
        os.environ[NAMES] = " ".join(f"{key}={value}" for key, value in names.items())


def _names() -> dict[str, str]:
    words = os.environ.get(NAMES, "").split()
    return {address: name for address, _, name in (word.partition("=") for word in words)}


class _ByName(ssl.SSLContext):
    """Checks certificates against the name by which an address was found."""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        if isinstance(server_hostname, str):
            server_hostname = _names().get(server_hostname, server_hostname)
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def _trust(context: ssl.SSLContext, file: str, name: str) -> None:
    try:
        context.load_verify_locations(file)
    except OSError as error:
        raise SettingsError(f"{name} = {file}: expected certificates of authorities in PEM: {_why(error)}") from None


def _no_password() -> str:
    """Else OpenSSL would ask at the terminal, and a process in the background would wait for ever."""
    return ""


def _why(error: OSError) -> str:
    return error.reason if isinstance(error, ssl.SSLError) and error.reason else error.strerror or str(error)
