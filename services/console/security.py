"""Who may read the page and who may change something: headers, hosts, the token, and the same-origin check."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from ipaddress import ip_address

from aiohttp import web

from router.process.access import Access

TOKEN_HEADER = "X-Herdless-Token"

# Everything comes from here, nothing is inline, nobody may frame it.
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class PageAccess(Access):
    """Lets in the pages of one console alone, and, where the cluster has a token, with that.

    Args:
        token: Of the cluster; `None`: there is none.
        page: The secret of the pages; left out: a new one.
    """

    def __init__(self, token: str | None, page: str | None = None) -> None:
        super().__init__(token)
        self.page = page or secrets.token_urlsafe(24)

    def page_fault(self, request: web.BaseRequest) -> str:
        """What speaks against carrying out a request that changes something; empty: nothing.

        Rule: it comes from a page of this console (`Origin`, `Sec-Fetch-Site`), says that it is JSON, which no form
        can, and knows the secret of the page, which no other page can read.
        """
        headers = request.headers
        origin, own = headers.get("Origin"), f"{request.scheme}://{headers.get('Host', '')}"
        if origin is not None and origin != own:
            return f"Origin {origin:.100}: only pages of {own:.100} may change something"
        if headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
            return "only pages of this console may change something"
        if headers.get("Content-Type", "").split(";")[0].strip() != "application/json":
            return "expected Content-Type: application/json"
        # Bytes that are no text come as surrogates, which only this way back takes.
        given = headers.get(TOKEN_HEADER, "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self.page.encode()):
            return f"the header {TOKEN_HEADER} is missing or not of this console: load the page anew"
        return ""


def host_fault(host: str | None, names: tuple[str, ...] = ()) -> str:
    """What is wrong with a `Host` header; empty: nothing.

    Rule: an IP address, a name without a dot (`localhost`, `console`), or one of `names`. A page of somebody else
    whose name was made to lead here (DNS rebinding) would otherwise count as of the same origin.
    """
    name = _host_name(host or "")
    if not name:
        return "no Host header"
    if "." not in name or name.endswith(".localhost") or name in map(str.lower, names) or _is_address(name):
        return ""
    return f"Host {name:.100}: a name that this console does not go by: start it with --name {name:.100}"


def _host_name(host: str) -> str:
    """Without the port and, for IPv6, the brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
