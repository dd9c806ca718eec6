"""What a router shows to Prometheus; hot paths count in plain integers, which are read here at scrape time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from router.app.counts import PEERS, Counts, Traffic, Waits
from router.app.driver import RouterDriver
from router.app.keys import Keys
from router.app.wire import REFUSALS
from router.events import Tally
from router.members import STATES
from router.process.access import KINDS, Access
from router.process.limits import Connections
from router.process.metrics import Kind, Labels, Metric, Metrics
from router.protocol.messages import End, Outcome, Pull, Report, Withdraw

RECEIVED = {Pull: "pull", Withdraw: "withdraw", Report: "report", End: "end"}
HTTP_REFUSALS = ("cut", "job", "json", "key", "limit", "settings", "slow", "too_long", "too_often", "websocket")
WEBSOCKETS = {"/v1/link": "server", "/v1/stream": "generator"}
HOPS = {"generator": "generator_router", "server": "server_router"}
ENDS: tuple[tuple[Outcome, str], ...] = (
    ("served", ""), ("blocked", ""), ("abandoned", ""), ("failed", "no_server"), ("failed", "link_lost"),
    ("failed", "ceiling"), ("failed", "draining"), ("failed", "policy"), ("failed", "server"),
    ("failed", "unaccounted"),
)  # fmt: skip


def _metric(name: str, meaning: str, kind: Kind, *labels: str) -> Metric:
    return Metric(f"herdless_router_{name}", meaning, kind, labels)


def router_metrics(
    driver: RouterDriver, policies: Sequence[str], access: Access, connections: Connections, keys: Keys
) -> Metrics:
    """The metrics of one router, with a series for each of `policies` from the start."""
    metrics = Metrics()
    _add_work(metrics, driver, policies)
    _add_times(metrics, driver.counts)
    _add_servers(metrics, driver)
    _add_wire(metrics, driver)
    _add_refusals(metrics, driver.counts, access)
    _add_http(metrics, connections, keys)
    return metrics


def _add_work(metrics: Metrics, driver: RouterDriver, policies: Sequence[str]) -> None:
    core, counts = driver.core, driver.counts
    each = [(policy,) for policy in policies]

    def by_policy(read: Callable[[Tally], int]) -> Callable[[], dict[Labels, float]]:
        return lambda: {(name,): read(tally) for name, tally in core.tallies.items()}

    def ends() -> dict[Labels, float]:
        return {
            (name, outcome, reason): count
            for name, tally in core.tallies.items()
            for (outcome, reason), count in tally.ends.items()
        }

    def in_force() -> dict[Labels, float]:
        return {(name,): name == core.policy.name for name in {*policies, core.policy.name}}

    for name, meaning, read in (
        ("jobs_total", "Jobs that arrived while the policy was in force", lambda tally: tally.arrivals),
        ("dispatches_total", "Dispatches that the policy decided", lambda tally: tally.dispatches),
        ("fallback_dispatches_total", "Those chosen at random for want of knowledge", lambda tally: tally.fallbacks),
        ("stale_dispatches_total", "Those whose ground was wrong when they arrived", lambda tally: tally.stale),
        ("retries_total", "Those of jobs that had failed at another server", lambda tally: tally.retries),
        ("undecided_jobs_total", "Jobs sent anywhere: no probed server answered", lambda tally: tally.undecided),
    ):
        metrics.add(_metric(name, meaning, "counter", "policy"), by_policy(read), each)
    metrics.add(
        _metric("ends_total", "Jobs ended, by the policy that decided them", "counter", "policy", "outcome", "reason"),
        ends,
        [(policy, *end) for policy in policies for end in ENDS],
    )
    metrics.add(
        _metric(
            "decision_seconds_total", "Time taken to decide where each arriving job goes, or whom to probe", "counter"
        ),
        lambda: counts.decision_s,
    )
    metrics.add(
        _metric("policy_errors_total", "Times that the policy raised an error: a mistake in it", "counter", "policy"),
        lambda: counts.policy_errors,
        each,
    )
    metrics.add(_metric("policy", "1 for the policy in force", "gauge", "policy"), in_force, each)
    metrics.add(_metric("in_flight", "Jobs dispatched and not ended", "gauge"), lambda: len(core.in_flight))
    metrics.add(_metric("probing", "Jobs that wait for answers to probes", "gauge"), lambda: core.probing)
    metrics.add(
        _metric("unheard_ends_total", "Ends whose client or generator was gone", "counter", "by"),
        lambda: counts.unheard,
    )
    metrics.add(_metric("orphaned_total", "Ends of jobs that had ended already", "counter"), lambda: core.orphaned)


def _add_times(metrics: Metrics, counts: Counts) -> None:
    metrics.add(
        _metric("sojourn_seconds", "Time in the system of served jobs, as this router saw it", "histogram", "policy"),
        lambda: counts.sojourns_s,
    )

    def by_policy_and_pool(read: Callable[[Waits], float]) -> Callable[[], dict[Labels, float]]:
        return lambda: {key: read(waits) for key, waits in counts.waits.items()}

    for name, meaning, read in (
        ("admitted_total", "Jobs served or abandoned", lambda waits: waits.admitted),
        ("zero_waits_total", "Those of them that started at once", lambda waits: waits.zero),
        ("waiting_seconds_total", "Their waiting times, added up", lambda waits: waits.waiting_s),
        ("service_seconds_total", "Their service times, added up", lambda waits: waits.service_s),
    ):
        metrics.add(_metric(name, meaning, "counter", "policy", "pool"), by_policy_and_pool(read))


def _add_servers(metrics: Metrics, driver: RouterDriver) -> None:
    core, counts = driver.core, driver.counts

    def servers() -> dict[Labels, float]:
        found: dict[Labels, float] = {(pool, state): 0 for pool in counts.pools for state in STATES}
        for server in core.servers.values():
            found[server.pool, core.members.state(server)] += 1
        return found

    def rates() -> dict[Labels, float]:
        found: dict[str, list[float]] = {pool: [] for pool in counts.pools}
        for server in core.servers.values():
            found[server.pool].append(server.rate)
        return {(pool,): sum(rates) / len(rates) if rates else 0.0 for pool, rates in found.items()}

    def set_aside() -> dict[Labels, float]:
        return {(why,): count for why, count in core.members.set_aside_total.items()}

    metrics.add(_metric("servers", "Servers that are linked", "gauge", "pool", "state"), servers)
    metrics.add(
        _metric(
            "server_rate", "Service rate of one slot, jobs per time unit; the mean of the servers", "gauge", "pool"
        ),
        rates,
    )
    metrics.add(
        _metric("set_aside_total", "Times that a server was set aside, by reason", "counter", "reason"), set_aside
    )
    metrics.add(
        _metric("aside_ignored_total", "Times that all came back who were set aside: nobody else was left", "counter"),
        lambda: core.members.ignored,
    )
    metrics.add(_metric("stale_views", "Servers whose views are stale", "gauge"), lambda: core.upkeep.stale_views)
    metrics.add(
        _metric("pull_messages_held", "Pull-messages that are held, also for servers that are set aside", "gauge"),
        lambda: core.held_total,
    )
    metrics.add(
        _metric("unheld_withdrawals_total", "Withdrawals of pull-messages that were not held", "counter"),
        lambda: core.unheld_withdrawals,
    )


def _add_wire(metrics: Metrics, driver: RouterDriver) -> None:
    core, counts = driver.core, driver.counts

    def sent() -> dict[Labels, float]:
        tallies = core.tallies.values()
        return {
            ("dispatch",): sum(tally.dispatches for tally in tallies),
            ("probe",): sum(tally.probes for tally in tallies),
        }

    def received() -> dict[Labels, float]:
        return {(RECEIVED[kind],): count for kind, count in counts.received.items()}

    def by_peer(read: Callable[[Traffic], float]) -> Callable[[], dict[Labels, float]]:
        return lambda: {(peer,): read(traffic) for peer, traffic in counts.traffic.items()}

    def by_hop(read: Callable[[Traffic], float]) -> Callable[[], dict[Labels, float]]:
        return lambda: {(HOPS[peer],): read(traffic) for peer, traffic in counts.traffic.items()}

    def in_and_out(
        read_in: Callable[[Traffic], int], read_out: Callable[[Traffic], int]
    ) -> Callable[[], dict[Labels, float]]:
        return lambda: {
            (peer, direction): read(traffic)
            for peer, traffic in counts.traffic.items()
            for direction, read in (("in", read_in), ("out", read_out))
        }

    metrics.add(_metric("messages_sent_total", "Messages to servers", "counter", "kind"), sent)
    metrics.add(_metric("messages_received_total", "Messages from servers", "counter", "kind"), received)
    metrics.add(_metric("connections", "WebSockets that are open", "gauge", "peer"), by_peer(lambda t: len(t.outboxes)))
    metrics.add(
        _metric("frames_total", "WebSocket frames", "counter", "peer", "direction"),
        in_and_out(lambda t: t.frames_in, lambda t: t.frames_out),
    )
    metrics.add(
        _metric("bytes_total", "Bytes in these frames", "counter", "peer", "direction"),
        in_and_out(lambda t: t.bytes_in, lambda t: t.bytes_out),
    )
    metrics.add(
        _metric("pauses_total", "Times that jobs were left unread: too much waited for a peer", "counter", "peer"),
        by_peer(lambda t: t.pauses),
    )
    metrics.add(
        _metric("one_way_seconds_total", "One-way delays of messages received, added up", "counter", "hop"),
        by_hop(lambda t: t.delay_s),
    )
    metrics.add(
        _metric("one_way_messages_total", "Messages whose one-way delay was measured", "counter", "hop"),
        by_hop(lambda t: t.delayed),
    )


def _add_refusals(metrics: Metrics, counts: Counts, access: Access) -> None:
    def refusals() -> dict[Labels, float]:
        found: dict[Labels, float] = {("http", reason): n for reason, n in counts.http_refusals.items()}
        for peer, traffic in counts.traffic.items():
            found.update({(peer, reason): n for reason, n in traffic.refusals.items()})
        for (path, kind), n in access.refused.items():
            key = WEBSOCKETS.get(path, "http"), kind
            found[key] = found.get(key, 0) + n
        return found

    metrics.add(
        _metric("refusals_total", "Times that a peer was refused for its own mistake", "counter", "peer", "reason"),
        refusals,
        [(peer, reason) for peer in PEERS for reason in (*REFUSALS, *KINDS)]
        + [("http", reason) for reason in (*HTTP_REFUSALS, "tls", *KINDS)],
    )


def _add_http(metrics: Metrics, connections: Connections, keys: Keys) -> None:
    metrics.add(
        _metric("http_connections", "Connections that are open, WebSockets included", "gauge"), lambda: connections.open
    )
    metrics.add(_metric("keys", "Keys of jobs that are known", "gauge"), lambda: len(keys))
    metrics.add(
        _metric("repeated_keys_total", "Jobs whose key was known, and that were not taken a second time", "counter"),
        lambda: keys.repeated,
    )
