"""What a server process shows to Prometheus; all of it is read from plain numbers when somebody scrapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from router.process.access import Access
from router.process.limits import REFUSALS, Connections, refusals
from router.process.metrics import Metric, Metrics
from router.protocol.messages import OUTCOMES, Dispatch, End, Probe, Pull, Report, Withdraw
from server.app.driver import ServerDriver
from server.app.links import Links
from server.app.settings import ServerSettings
from server.core import Disturbed

Numbers = Mapping[tuple[str, ...], float]

SENT_KINDS: dict[type, str] = {Pull: "pull", Withdraw: "withdraw", Report: "report", End: "end"}
UNDISTURBED = Disturbed()
RECEIVED_KINDS: dict[type, str] = {Dispatch: "dispatch", Probe: "probe"}

JOBS = Metric("herdless_server_jobs_total", "Jobs ended, by outcome", "counter", ("pool", "outcome"))
ARRIVALS = Metric("herdless_server_arrivals_total", "Dispatches received", "counter", ("pool",))
STARTED = Metric("herdless_server_started_at_once_total", "Jobs that found a free slot", "counter", ("pool",))
WAITED = Metric("herdless_server_waited_total", "Jobs admitted that found all slots busy", "counter", ("pool",))
STALE = Metric(
    "herdless_server_stale_total",
    "Dispatches whose pull-message or expected queue length was wrong on arrival",
    "counter",
    ("pool",),
)
SENT = Metric("herdless_server_messages_sent_total", "Messages to routers", "counter", ("pool", "kind"))
RECEIVED = Metric("herdless_server_messages_received_total", "Messages from routers", "counter", ("pool", "kind"))
UNSENT = Metric("herdless_server_messages_lost_total", "Messages to a link that was being lost", "counter", ("pool",))
LENGTH_SECONDS = Metric(
    "herdless_server_queue_length_seconds_total",
    "Time that servers spent with so many jobs, waiting and in service",
    "counter",
    ("pool", "length"),
)
JOB_SECONDS = Metric(
    "herdless_server_job_seconds_total", "Jobs in the system, integrated over time", "counter", ("pool",)
)
BUSY_SECONDS = Metric("herdless_server_busy_seconds_total", "Busy slots, integrated over time", "counter", ("pool",))
LENGTH = Metric("herdless_server_queue_length", "Jobs in the system at all servers", "gauge", ("pool",))
BUSY = Metric("herdless_server_busy_slots", "Busy slots of all servers", "gauge", ("pool",))
SLOTS = Metric("herdless_server_slots", "Slots of all servers", "gauge", ("pool",))
SERVERS = Metric("herdless_server_servers", "Servers of this process", "gauge", ("pool",))
RATE = Metric(
    "herdless_server_rate", "Service rate of one slot, jobs per time unit; the mean of its servers", "gauge", ("pool",)
)
TIME_UNIT = Metric("herdless_server_time_unit_seconds", "Seconds in a time unit", "gauge")
DRAINING = Metric("herdless_server_draining", "Servers that take nothing new", "gauge", ("pool",))
DISTURBED = Metric("herdless_server_disturbed", "Servers that were told to misbehave", "gauge", ("pool",))
WAITING_UNITS = Metric(
    "herdless_server_waiting_units",
    "Waiting time in time units, zero waits in the bucket 0.0; jobs whose router was told of their end",
    "histogram",
    ("pool",),
)
SERVICE_UNITS = Metric(
    "herdless_server_service_units",
    "Service time in time units; jobs whose router was told of their end",
    "histogram",
    ("pool",),
)
TIMER_LAG = Metric("herdless_server_timer_lag_seconds", "How late scheduled events were handled", "histogram")
LINKS_UP = Metric("herdless_server_links_up", "Links to routers that are up", "gauge")
LINK_UPS = Metric("herdless_server_link_ups_total", "Links to routers that came up", "counter")
LINK_LOSSES = Metric("herdless_server_link_losses_total", "Links to routers that went down", "counter")
LINK_FAILURES = Metric("herdless_server_link_failures_total", "Attempts to link that failed", "counter")
REFUSED = Metric("herdless_server_link_refusals_total", "Links closed from this side, by cause", "counter", ("cause",))
HTTP_REFUSED = Metric("herdless_server_http_refusals_total", "HTTP requests refused, by reason", "counter", ("reason",))
HTTP_CONNECTIONS = Metric("herdless_server_http_connections", "HTTP connections that are open", "gauge")
DELAY = Metric(
    "herdless_server_one_way_delay_seconds_total",
    "Sum of the one-way delays of messages, where the clocks are one",
    "counter",
    ("hop",),
)
DELAYS = Metric("herdless_server_one_way_delays_total", "Messages in the sum of one-way delays", "counter", ("hop",))
EACH_LENGTH = Metric("herdless_server_each_queue_length", "Jobs in the system at each server", "gauge", ("server",))


def make_metrics(
    settings: ServerSettings,
    driver: ServerDriver,
    links: Links,
    access: Access | None = None,
    connections: Connections | None = None,
) -> Metrics:
    """All metrics of a server process; every label set is there from the start."""
    metrics = Metrics()
    pool = settings.pool
    cores = list(driver.cores.values())
    counts = links.counts

    def total(value: Callable[[], float]) -> Callable[[], Mapping[str, float]]:
        return lambda: {pool: value()}

    def kinds(counted: dict[type, int], names: dict[type, str]) -> Callable[[], Numbers]:
        return lambda: {(pool, name): counted[kind] for kind, name in names.items()}

    def jobs() -> Numbers:
        return {(pool, outcome): sum(core.ends[outcome] for core in cores) for outcome in OUTCOMES}

    def waited() -> float:
        return sum(core.arrivals - core.started_at_once - core.ends["blocked"] - core.ends["failed"] for core in cores)

    metrics.add(JOBS, jobs)
    metrics.add(ARRIVALS, total(lambda: sum(core.arrivals for core in cores)))
    metrics.add(STARTED, total(lambda: sum(core.started_at_once for core in cores)))
    metrics.add(WAITED, total(waited))
    metrics.add(STALE, total(lambda: sum(core.stale for core in cores)))
    metrics.add(SENT, kinds(driver.sent, SENT_KINDS))
    metrics.add(RECEIVED, kinds(driver.received, RECEIVED_KINDS))
    metrics.add(UNSENT, total(lambda: driver.unsent))
    metrics.add(LENGTH_SECONDS, lambda: queue_length_seconds(settings, driver))
    metrics.add(JOB_SECONDS, total(lambda: integrated(driver, lambda length: length)))
    metrics.add(BUSY_SECONDS, total(lambda: integrated(driver, lambda length: min(length, settings.slots))))
    metrics.add(LENGTH, total(lambda: driver.in_system))
    metrics.add(BUSY, total(lambda: sum(core.busy for core in cores)))
    metrics.add(SLOTS, total(lambda: settings.servers * settings.slots))
    metrics.add(SERVERS, total(lambda: settings.servers))
    metrics.add(RATE, total(lambda: sum(core.spec.rate for core in cores) / len(cores)))
    metrics.add(TIME_UNIT, lambda: settings.time_unit_s)
    metrics.add(DRAINING, total(lambda: len(driver.draining)))
    metrics.add(DISTURBED, total(lambda: sum(core.disturbance != UNDISTURBED for core in cores)))
    metrics.add(WAITING_UNITS, lambda: {pool: driver.waiting_units})
    metrics.add(SERVICE_UNITS, lambda: {pool: driver.service_units})
    metrics.add(TIMER_LAG, lambda: driver.lag_s)
    metrics.add(LINKS_UP, lambda: links.up)
    metrics.add(LINK_UPS, lambda: counts.ups)
    metrics.add(LINK_LOSSES, lambda: counts.losses)
    metrics.add(LINK_FAILURES, lambda: counts.failures)
    metrics.add(REFUSED, lambda: dict(counts.refusals))
    let_in, there = access or Access(None), connections or Connections()
    metrics.add(HTTP_REFUSED, lambda: refusals(let_in, there), [(reason,) for reason in REFUSALS])
    metrics.add(HTTP_CONNECTIONS, lambda: there.open)
    metrics.add(DELAY, lambda: {"router_server": counts.delay_s})
    metrics.add(DELAYS, lambda: {"router_server": counts.delays})
    if settings.metrics_per_server:
        metrics.add(EACH_LENGTH, lambda: {core.spec.id: core.length for core in cores})
    return metrics


def queue_length_seconds(settings: ServerSettings, driver: ServerDriver) -> Numbers:
    """Time spent at each queue length, all servers together; the last place holds all longer ones."""
    last = settings.longest_queue
    seconds = [0.0] * (last + 1)
    now = driver.clock()
    for core in driver.cores.values():
        times = core.occupancy(now)
        for length, time in enumerate(times[:last]):
            seconds[length] += time
        seconds[last] += sum(times[last:])
    names = [str(length) for length in range(last)] + [f"{last}+"]
    return {(settings.pool, name): time for name, time in zip(names, seconds, strict=True)}


def integrated(driver: ServerDriver, weight: Callable[[int], int]) -> float:
    """The time spent at each queue length, times a weight of that length, all servers together."""
    now = driver.clock()
    return sum(
        weight(length) * time for core in driver.cores.values() for length, time in enumerate(core.occupancy(now))
    )
