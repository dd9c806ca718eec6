"""Writes the dashboards: `python -m services.grafana.dashboards`.

Each one is a function here; the JSON that Grafana reads is beside its provisioning file and is not edited by hand.
"""

from __future__ import annotations

from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from services.grafana.panels import (
    MODEL,
    PLAIN,
    POLICY,
    POOL,
    ROUTER,
    SECONDS,
    SHARE,
    board,
    graph,
    live,
    live_by,
    model,
    name_of,
    number,
)

FOLDER = Path(__file__).parent / "provisioning" / "dashboards"

ITS = 'policy=~"$policy"'
PREDICTED_MESSAGES = (
    'max by (quantity, method) (herdless_model_value{quantity=~"messages[.].+"})', MODEL + "{{quantity}} ({{method}})"
)  # fmt: skip
OF_ALL = 'pool=""'
OF_POOL = 'pool=~"$pool"'
AT = 'instance=~"$router"'


def live_against_theory() -> Dashboard:
    """Each quantity: what is measured, with a band, and what models predict."""
    made = board(
        "herdless-theory",
        "Live against theory",
        "Measured values over the last minute, with the band of nine tenths of their 10-second values, and dashed "
        "what models predict of the policy, the load and the servers of that moment. A mean field or a limit is "
        "approached as the system grows; a closed form or an exact chain holds as it is.",
        (POLICY, POOL),
    )
    made.with_panel(name_of("Scenario", "What the models were told.", ("herdless_model_info", "{{scenario}}")))
    made.with_panel(name_of("Policy", "In force at the routers.",
                            ("max by (policy) (herdless_router_policy == 1)", "{{policy}}")))  # fmt: skip
    made.with_panel(number("Load", "Arrival rate over what the servers that are there can serve.", SHARE,
                           [("herdless_model_load", "load")], limit=1.0))  # fmt: skip
    made.with_panel(number("Jobs per second", "That arrive at the routers.", PLAIN,
                           [("sum(herdless:job_rate:rate10s)", "jobs/s")]))  # fmt: skip
    made.with_panel(number("Servers", "By pool.", PLAIN, [("sum by (pool) (herdless_server_servers)", "{{pool}}")]))
    made.with_panel(number("Alerts", "That fire now: this measurement is not to be trusted. Health says which.",
                           PLAIN, [('count(ALERTS{alertstate="firing", severity!="info"}) or vector(0)', "alerts")],
                           limit=1.0))  # fmt: skip
    made.with_row(Row("Jobs"))
    for quantity, title, description, unit in (
        ("wait_probability", "Waiting", "Share of the jobs that found all slots of their server busy.", SHARE),
        ("block_probability", "Blocking", "Share of the jobs that found no vacancy.", SHARE),
        ("abandon_probability", "Abandonment", "Share of the jobs whose patience ended.", SHARE),
        ("waiting_mean", "Waiting time", "Mean of admitted jobs, in time units.", PLAIN),
        ("sojourn_mean", "Sojourn time", "Mean of served jobs, in time units.", PLAIN),
        ("sojourn_p95", "Sojourn time, 95th percentile", "Of served jobs, in time units.", PLAIN),
    ):
        made.with_panel(graph(title, description, unit, live(quantity, ITS) + model(quantity, ITS)))
    made.with_row(Row("Servers"))
    made.with_panel(graph("Jobs in the system", "At all servers together.", PLAIN,
                          live("jobs_in_system_mean") + model("jobs_in_system_mean")))  # fmt: skip
    made.with_panel(graph("Queue-length tail, all servers", "Share of servers with k jobs or more.", SHARE,
                          live_by("queue_tail", "k", OF_ALL)
                          + model("queue_tail", f'{OF_ALL}, k=~"[1-6]"', by="k"), log=True))  # fmt: skip
    made.with_panel(graph("Messages per job", "Control messages by kind.", PLAIN,
                          [*live_by("messages", "kind"), PREDICTED_MESSAGES]))  # fmt: skip
    made.with_row(Row("Pools"))
    for quantity, title, description, unit in (
        ("utilisation", "Utilisation", "Share of the pool's slots that are busy.", SHARE),
        ("queue_length_mean", "Queue length", "Jobs at one server of the pool, waiting and in service.", PLAIN),
        ("job_share", "Share of jobs", "Of the served jobs, those of the pool.", SHARE),
    ):
        made.with_panel(graph(title, description, unit,
                              live_by(quantity, "pool", OF_POOL) + model(quantity, OF_POOL, by="pool")))  # fmt: skip
    return made


def policies_side_by_side() -> Dashboard:
    """The same quantities, a line a policy, and their means over the time shown."""
    made = board(
        "herdless-policies",
        "Policies side by side",
        "Change the policy of the running cluster (herdless policy NAME --routers …), and see each for itself: a line "
        "a policy, and in large digits its mean over the time shown. The jobs are those that the policy decided.",
        (POLICY,),
    )
    shown = (
        ("sojourn_mean", "Sojourn time", "Mean of served jobs, in time units.", PLAIN),
        ("sojourn_p99", "Sojourn time, 99th percentile", "Of served jobs, in time units.", PLAIN),
        ("wait_probability", "Waiting", "Share of the jobs that found all slots of their server busy.", SHARE),
        ("block_probability", "Blocking", "Share of the jobs that found no vacancy.", SHARE),
        ("abandon_probability", "Abandonment", "Share of the jobs whose patience ended.", SHARE),
        ("failed_probability", "Failure", "Share of the jobs that failed for another reason.", SHARE),
    )
    for quantity, title, description, unit in shown:
        over_time = f"avg by (policy) (avg_over_time(herdless:{quantity}:rate10s{{{ITS}}}[$__range]))"
        made.with_panel(number(title, description + " Mean over the time shown.", unit, [(over_time, "{{policy}}")]))
    for quantity, title, description, unit in shown:
        made.with_panel(graph(title, description, unit,
                              live_by(quantity, "policy", ITS) + model(quantity, ITS, by="policy")))  # fmt: skip
    made.with_panel(graph("Jobs per second", "By the policy that was in force when they arrived.", PLAIN,
                          live_by("job_rate", "policy", ITS)))  # fmt: skip
    made.with_panel(graph("Dispatched at random", "Share of dispatches for which the policy knew of nothing better.",
                          SHARE, live_by("dispatch_random", "policy", ITS)))  # fmt: skip
    made.with_panel(graph("Dispatched on a wrong ground", "Share of dispatches whose pull-message or view was wrong "
                          "when they arrived.", SHARE, live_by("dispatch_stale", "policy", ITS)))  # fmt: skip
    return made


def messages_and_network() -> Dashboard:
    """What policies cost, and what carries it."""
    made = board(
        "herdless-messages",
        "Messages and network",
        "Control messages per job, which are what a policy costs, and the frames, bytes and delays that carry them.",
        (ROUTER, POOL),
    )
    at, of_pool = AT, OF_POOL
    made.with_panel(graph("Messages per job", "Control messages by kind.", PLAIN,
                          [*live_by("messages", "kind"), PREDICTED_MESSAGES]))  # fmt: skip
    made.with_panel(graph("Messages sent by servers", "Per second, by kind.", PLAIN, [
        (f"sum by (kind) (rate(herdless_server_messages_sent_total{{{of_pool}}}[10s]))", "{{kind}}")]))  # fmt: skip
    made.with_panel(graph("Messages sent by routers", "Per second, by kind.", PLAIN, [
        (f"sum by (kind) (rate(herdless_router_messages_sent_total{{{at}}}[10s]))", "{{kind}}")]))  # fmt: skip
    made.with_panel(graph("Pull-messages held", "By router.", PLAIN, [
        (f"herdless_router_pull_messages_held{{{at}}}", "{{instance}}")]))  # fmt: skip
    made.with_panel(graph("Withdrawals of what was not held", "Per second: they crossed a dispatch.", PLAIN, [
        (f"rate(herdless_router_unheld_withdrawals_total{{{at}}}[10s])", "{{instance}}")]))  # fmt: skip
    made.with_panel(graph("Wrong on arrival", "Dispatches per second, by pool.", PLAIN, [
        (f"sum by (pool) (rate(herdless_server_stale_total{{{of_pool}}}[10s]))", "{{pool}}")]))  # fmt: skip
    made.with_panel(graph("One-way delay", "Mean over messages, where both ends read one clock.", SECONDS,
                          live_by("one_way_seconds", "hop")))  # fmt: skip
    made.with_panel(graph("Frames", "Per second, at routers.", PLAIN, [
        (f"sum by (peer, direction) (rate(herdless_router_frames_total{{{at}}}[10s]))",
         "{{peer}} {{direction}}")]))  # fmt: skip
    made.with_panel(graph("Bytes", "Per second, at routers.", "Bps", [
        (f"sum by (peer, direction) (rate(herdless_router_bytes_total{{{at}}}[10s]))",
         "{{peer}} {{direction}}")]))  # fmt: skip
    made.with_panel(graph("Connections", "WebSockets that are open at routers.", PLAIN, [
        (f"sum by (instance, peer) (herdless_router_connections{{{at}}})", "{{instance}} {{peer}}")]))  # fmt: skip
    made.with_panel(graph("Links lost and up", "Per server process: links that are up, and losses in the last minute.",
                          PLAIN, [("sum by (instance) (herdless_server_links_up)", "{{instance}} up"),
                                  ("sum(increase(herdless_server_link_losses_total[1m]))", "lost")]))  # fmt: skip
    made.with_panel(graph("Refusals", "Per second: peers and clients that broke a rule.", PLAIN, [
        (f"sum by (peer) (rate(herdless_router_refusals_total{{{at}}}[10s]))", "{{peer}}")]))  # fmt: skip
    return made


def health_of_the_testbed() -> Dashboard:
    """Whether what is measured is the theory's system, or the machine."""
    made = board(
        "herdless-health",
        "Health of the testbed",
        "Whether what is measured may be trusted: books that balance, processes that keep up, a generator on time.",
        (ROUTER,),
    )
    made.with_panel(number("Processes", "That answer, by kind.", PLAIN, [("sum by (job) (up)", "{{job}}")], span=6))
    made.with_panel(number("Unbalanced jobs", "Jobs that no book knows: 0, or a mistake of ours.", PLAIN, [(
        "sum(herdless_router_jobs_total) - sum(herdless_router_ends_total) "
        "- sum(herdless_router_in_flight) - sum(herdless_router_probing)", "routers"), (
        "sum(herdless_server_arrivals_total) - sum(herdless_server_jobs_total) - sum(herdless_server_queue_length)",
        "servers"), (
        "sum(herdless_load_jobs_total) - sum(herdless_load_ends_total) - sum(herdless_load_under_way)",
        "generator")], span=6, limit=1.0))  # fmt: skip
    made.with_panel(number("Lateness", "99th percentile, of a time unit: above 10% the load is not what was asked for.",
                           SHARE, [("herdless:lateness_p99_seconds:rate10s "
                                    "/ scalar(max(herdless_load_time_unit_seconds))", "generator")],
                           span=6, limit=0.1))  # fmt: skip
    made.with_panel(number("Alerts", "That fire, by name.", PLAIN, [
        ('count by (alertname) (ALERTS{alertstate="firing"}) or vector(0)', "{{alertname}}")], span=6, limit=1.0,
    ))  # fmt: skip
    made.with_panel(graph("CPU", "Cores that each process uses.", PLAIN, [
        ("herdless:cpu_cores:rate10s", "{{job}} {{instance}}")], limit=0.9))  # fmt: skip
    made.with_panel(graph("Memory", "Resident, by process.", "bytes", [
        ("process_resident_memory_bytes", "{{job}} {{instance}}")]))  # fmt: skip
    made.with_panel(graph("Lag of timers and lateness", "99th percentiles.", SECONDS, [
        ("herdless:timer_lag_p99_seconds:rate10s", "servers' timers"),
        ("herdless:lateness_p99_seconds:rate10s", "generator")], log=True))  # fmt: skip
    made.with_panel(graph("Time of a decision", "Mean: where does this job go, or whom to ask.", SECONDS, [
        ("herdless:decision_seconds:rate10s", "routers")]))  # fmt: skip
    made.with_panel(graph("Jobs at routers", "Arrivals per second, by router.", PLAIN, [
        (f"sum by (instance) (rate(herdless_router_jobs_total{{{AT}}}[10s]))", "{{instance}}")]))  # fmt: skip
    made.with_panel(graph("In flight", "Jobs dispatched and not ended, by router.", PLAIN, [
        (f"herdless_router_in_flight{{{AT}}}", "{{instance}}")]))  # fmt: skip
    made.with_panel(graph("Ends", "Per second, by outcome and reason.", PLAIN, [
        ("sum by (outcome, reason) (rate(herdless_router_ends_total[10s]))", "{{outcome}} {{reason}}")]))  # fmt: skip
    made.with_panel(graph("Ends that came to nothing", "Per second: known already, or nobody there to hear.", PLAIN, [
        ("sum(rate(herdless_router_orphaned_total[10s]))", "orphaned"),
        ("sum by (by) (rate(herdless_router_unheard_ends_total[10s]))", "unheard ({{by}})")]))  # fmt: skip
    made.with_panel(graph("Servers at routers", "That are linked, by pool and state.", PLAIN, [
        (f"max by (pool, state) (herdless_router_servers{{{AT}}})", "{{pool}} {{state}}")]))  # fmt: skip
    return made


BOARDS = {
    "live-against-theory.json": live_against_theory,
    "policies-side-by-side.json": policies_side_by_side,
    "messages-and-network.json": messages_and_network,
    "health-of-the-testbed.json": health_of_the_testbed,
}


def written() -> dict[str, str]:
    """The text of each file, by name."""
    texts = {}
    for name, make in BOARDS.items():
        built = make().build()
        for place, panel in enumerate(built.panels or [], 1):
            panel.id_val = place  # links to a panel keep leading to it
        texts[name] = JSONEncoder(sort_keys=True, indent=1).encode(built) + "\n"
    return texts


if __name__ == "__main__":
    for _name, _text in written().items():
        (FOLDER / _name).write_text(_text, encoding="utf-8")
