"""The HTTP client of our processes: it has the token, and knows whom to trust."""

from __future__ import annotations

from aiohttp import (
    ClientConnectorError,
    ClientOSError,
    ClientResponseError,
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    DummyCookieJar,
    ServerDisconnectedError,
    TCPConnector,
)

from router.process.access import Access, access_from_environment
from router.process.tls import Tls, tls_from_environment


def open_session(limit_s: float | None = None, access: Access | None = None, tls: Tls | None = None) -> ClientSession:
    """A session for requests and WebSockets to processes of a cluster; create it inside the running loop.

    Args:
        limit_s: The longest that one request may take; `None`: as long as it likes.
        access: Holds the token; left out: that of the environment.
        tls: Whom to trust, and what to show; left out: as the environment says.

    Raises:
        SettingsError: A file that the settings name is missing, or not what it should be.
    """
    access, tls = access or access_from_environment(), tls or tls_from_environment()
    # Every link is a connection for good, and so is a job under way: the usual limit of 100 would be a hidden queue.
    connector = TCPConnector(limit=0, ssl=tls.client_context()) if tls.dials else TCPConnector(limit=0)
    return ClientSession(
        connector=connector,
        cookie_jar=DummyCookieJar(),
        headers=access.headers(),
        timeout=ClientTimeout(total=limit_s),
    )


def failure(error: BaseException) -> str:
    """What to say of a request that failed. Never `repr`: that of some errors shows all headers, and so the token."""
    if isinstance(error, ClientResponseError):
        return "it refuses our token" if error.status == 401 else f"it answers {error.status}"
    if was_cut(error):
        return (
            "it closes the connection instead of an answer: so does who speaks TLS with those that do not, and by "
            "mutual TLS with those that have no certificate of its authority"
        )
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def is_refusal(error: BaseException) -> bool:
    """Whether one side has refused the other: somebody must change a setting, and waiting is no use."""
    return isinstance(error, ClientSSLError) or (isinstance(error, ClientResponseError) and error.status == 401)


def was_cut(error: BaseException) -> bool:
    """Whether somebody has closed a connection instead of an answer.

    By TLS 1.3 a client is through before its certificate was looked at, so this is all that it sees of a refusal.
    """
    if isinstance(error, ClientConnectorError):
        return False  # nobody was there
    return isinstance(error, ServerDisconnectedError | ClientOSError)
