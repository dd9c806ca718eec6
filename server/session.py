"""What a server knows of one router."""

from __future__ import annotations

from router.protocol.needs import Needs


class Session:
    """A link to one incarnation of a router.

    Attributes:
        router: The router's name. `epoch`: its incarnation; 0: unknown.
        needs: What its policy asks for. `needs_changes`: how often that has changed on this link.
        reports_on_end: Whether it asks for lengths that ride on ends.
        seen: Dispatches received on this link.
        up: Whether the link is up.
        held: Pull-messages that the router last said it holds.
        believed: The queue length that the router must believe in: what it was last told, plus
            what it has sent since.
    """

    __slots__ = ("believed", "epoch", "held", "needs", "needs_changes", "reports_on_end", "router", "seen", "up")

    def __init__(self, router: str, needs: Needs, epoch: int = 0) -> None:
        self.router = router
        self.epoch = epoch
        self.set_needs(needs)
        self.needs_changes = 0
        self.seen = 0
        self.up = True
        self.held = 0
        self.believed = 0

    def set_needs(self, needs: Needs) -> None:
        """The router says what it asks for."""
        self.needs = needs
        self.reports_on_end = needs.reports is not None and needs.reports.on_end

    def __repr__(self) -> str:
        return f"Session({self.router}, seen={self.seen}, believed={self.believed}, up={self.up})"
