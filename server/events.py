"""What may happen to a server: events and timers, and the job that timers speak of."""

from __future__ import annotations

from typing import NamedTuple

from router.protocol.messages import Dispatch, End, Probe, Pull, Report, Withdraw
from router.protocol.needs import Needs
from router.protocol.timer import StartTimer
from server.session import Session


class Work:
    """A job at this server, from its arrival to its end."""

    __slots__ = ("arrived", "job", "session", "size", "stale", "started", "state")

    WAITING, IN_SERVICE, GONE = "waiting", "in service", "gone"

    def __init__(self, session: Session, job: int, size: float, arrived: float, stale: bool) -> None:
        self.session = session
        self.job = job
        self.size = size
        self.arrived = arrived
        self.stale = stale
        self.started = arrived
        self.state = Work.WAITING

    def __repr__(self) -> str:
        return f"Work(job={self.job}, router={self.session.router}, arrived={self.arrived}, state={self.state!r})"


class RouterJoined(NamedTuple):
    """A link to a router is up; `epoch` is its incarnation, 0: unknown."""

    router: str
    needs: Needs
    epoch: int = 0


class NeedsChanged(NamedTuple):
    """The router has another policy."""

    router: str
    needs: Needs


class RouterLeft(NamedTuple):
    """The link to a router is lost: its pull-messages are void, its jobs go on unheard."""

    router: str


class Open(NamedTuple):
    """The links to all routers known at start are up: post the first pull-message."""


class Drain(NamedTuple):
    """Take nothing new; finish what is here."""


class RateChanged(NamedTuple):
    """A slot serves at this rate from now on, beginning with the next service; whoever drives it tells the routers."""

    rate: float


class Disturbed(NamedTuple):
    """How this server misbehaves from now on; without arguments: no more. No router is told.

    Attributes:
        slow: A service that starts takes so many times as long.
        failing: Each dispatch ends at once as failed, with reason `server`; jobs that are here go on.
        hung: No service ends; those that are due end when it hangs no more. Dispatches are taken in.
    """

    slow: float = 1.0
    failing: bool = False
    hung: bool = False


class ServiceEnded(NamedTuple):
    """Timer: the service of this job is over."""

    work: Work


class PatienceEnded(NamedTuple):
    """Timer: this job will wait no longer."""

    work: Work


class ReportDue(NamedTuple):
    """Timer: the next periodic report to this router, unless its needs have changed since."""

    session: Session
    needs_changes: int


def is_void(timer: object) -> bool:
    """Whether a timer has lost its meaning for good: nothing would follow from it."""
    if isinstance(timer, PatienceEnded | ServiceEnded):
        return timer.work.state is Work.GONE
    if isinstance(timer, ReportDue):
        return not timer.session.up or timer.session.needs_changes != timer.needs_changes
    return False


ServerEvent = (
    Dispatch | Probe | RouterJoined | NeedsChanged | RouterLeft | Open | Drain | RateChanged | Disturbed
    | ServiceEnded | PatienceEnded | ReportDue
)  # fmt: skip
ServerEffect = Pull | Withdraw | Report | End | StartTimer
