"""What one process shows at one instant, as the console needs it: counters by name, and gauges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from router.protocol.messages import CONTROL_KINDS, OUTCOMES
from services.lab.scrape import Samples

_OF_ROUTERS = ("herdless_router_",)
_OF_SERVERS = (
    "herdless_server_busy_seconds_total", "herdless_server_slots", "herdless_server_messages_sent_total",
    "herdless_server_link_losses_total", "herdless_server_links_up", "process_cpu_seconds_total",
)  # fmt: skip
SOJOURN, LATENESS = "sojourn_le.", "lateness_le."
"""How the counts of histograms begin: see `buckets`."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Of one process.

    Attributes:
        counts: What only grows while the process lives, by name.
        gauges: What is so now, by name.
    """

    counts: dict[str, float]
    gauges: dict[str, float] = field(default_factory=dict)


def router_shows(text: str, policy: str) -> Shown:
    """Read the metrics of a router; what is counted by policy, of that policy alone.

    Args:
        text: In Prometheus's text format.
        policy: The name of the policy in force.
    """
    samples = Samples(_lines(text, (*_OF_ROUTERS, "process_cpu_seconds_total"), policy))

    def total(name: str, **labels: str) -> float:
        return samples.total(f"herdless_router_{name}", **labels)

    counts = {
        "jobs": total("jobs_total"),
        "dispatches": total("dispatches_total"),
        "fallbacks": total("fallback_dispatches_total"),
        "stale": total("stale_dispatches_total"),
        "admitted": total("admitted_total"),
        "zero_waits": total("zero_waits_total"),
        "waiting_s": total("waiting_seconds_total"),
        "sojourn_s": total("sojourn_seconds_sum"),
        "served": total("sojourn_seconds_count"),
        "cpu_s": samples.total("process_cpu_seconds_total"),
        "sent.probe": total("messages_sent_total", kind="probe"),
    }
    counts |= {f"ends.{outcome}": total("ends_total", outcome=outcome) for outcome in OUTCOMES}
    counts |= {f"received.{kind}": total("messages_received_total", kind=kind) for kind in CONTROL_KINDS}
    counts |= {f"{SOJOURN}{le!r}": value for le, value in samples.buckets("herdless_router_sojourn_seconds")}
    gauges = {name: total(name) for name in ("pull_messages_held", "in_flight")}
    return Shown(counts, gauges)


def server_shows(text: str) -> Shown:
    """Read the metrics of a server process."""
    samples = Samples(_lines(text, _OF_SERVERS))
    busy = samples.by("herdless_server_busy_seconds_total", "pool")
    slots = samples.by("herdless_server_slots", "pool")
    sent = samples.by("herdless_server_messages_sent_total", "kind")
    counts = {f"busy_s.{pool}": seconds for pool, seconds in busy.items()}
    counts |= {f"sent.{kind}": sent.get(kind, 0.0) for kind in CONTROL_KINDS}
    counts["link_losses"] = samples.total("herdless_server_link_losses_total")
    counts["cpu_s"] = samples.total("process_cpu_seconds_total")
    gauges = {f"slots.{pool}": number for pool, number in slots.items()}
    gauges["links_up"] = samples.total("herdless_server_links_up")
    return Shown(counts, gauges)


def load_shows(text: str) -> Shown:
    """Read the metrics of an endless generator."""
    samples = Samples(_lines(text, ("herdless_load_lateness_seconds", "process_cpu_seconds_total")))
    counts = {f"{LATENESS}{le!r}": value for le, value in samples.buckets("herdless_load_lateness_seconds")}
    return Shown(counts | {"cpu_s": samples.total("process_cpu_seconds_total")})


def buckets(counts: Mapping[str, float], name: str) -> list[tuple[float, float]]:
    """A histogram, `SOJOURN` or `LATENESS`: upper bound in seconds, jobs up to it."""
    return sorted((float(key.removeprefix(name)), count) for key, count in counts.items() if key.startswith(name))


def _lines(text: str, prefixes: tuple[str, ...], policy: str | None = None) -> str:
    """The lines that are needed: to parse the rest as well would cost several times as much."""
    of_policy = f'policy="{policy}"'
    return "\n".join(
        line
        for line in text.splitlines()
        if line.startswith(prefixes) and (policy is None or 'policy="' not in line or of_policy in line)
    ) + "\n"  # fmt: skip
