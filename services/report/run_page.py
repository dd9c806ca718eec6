"""The page of a run, a simulation or a solution: its numbers, what was tested, and whether it was valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from services.audit.lines import audit_lines
from services.measure.validity import CPU_LIMIT, DELAY_LIMIT_UNITS, LATENESS_LIMIT_UNITS
from services.report.drawing import Drawing
from services.report.markup import Markup, element, join
from services.report.page import Headline, Subject, figures_section, page, section
from services.report.quantities import EXPLAINED, PRIMARY, capital, family
from services.report.tables import WORDS, link, quantities_table
from services.report.values import Measured, kind, measured, number, predicted


def run_page(subject: Subject, summary: Mapping[str, Any], drawings: Sequence[Drawing]) -> str:
    """The page of a live run, a simulation or a solution.

    Args:
        subject: What it is about.
        summary: The JSON object of the report.
        drawings: Its figures.
    """
    quantities = summary["quantities"]
    sections = [
        _tiles(quantities),
        section("Quantities", _reading(quantities), quantities_table(quantities)),
        figures_section(drawings),
        _checks(summary),
        _models(quantities),
    ]
    names = [name for name in EXPLAINED if any(family(found) == name for found in quantities)]
    return page(subject, _verdict(subject, summary), sections, names)


def _verdict(subject: Subject, summary: Mapping[str, Any]) -> Headline:
    word, text = subject.verdict
    invalid = summary.get("invalid", [])
    shown = "invalid" if invalid else word
    sign, name = WORDS.get(shown, ("", shown))
    lines = [text, *(f"Invalid: {reason}" for reason in invalid), *summary.get("hints", [])]
    return Headline(shown, f"{sign} {name.capitalize()}", lines)


def _tiles(quantities: Mapping[str, Any]) -> Markup | None:
    """The numbers that are asked for first."""
    tiles = []
    for name in PRIMARY:
        quantity = quantities.get(name, {})
        found = {column: dot for column in ("live", "simulated") if (dot := measured(quantity, column))}
        models = predicted(quantity)
        values = [dot.value for dot in found.values()] + list(models.values())
        if not any(values):
            continue
        chief = next(iter(found.values())) if found else Measured(values[0], None, None)
        beside = [f"simulated {number(found['simulated'].value)}"] if len(found) > 1 else []
        beside += [f"{kind(quantity, method)} {number(value)}" for method, value in models.items() if found]
        tiles.append(
            element(
                "li",
                element("div", link(name), class_="what"),
                element("div", number(chief.value), class_="much"),
                element("div", join([element("span", part) for part in beside], " · "), class_="beside")
                if beside
                else None,
            )
        )
    return element("ul", tiles, class_="tiles") if tiles else None


def _reading(quantities: Mapping[str, Any]) -> Markup:
    """How to read the table."""
    text = "Times are in time units; probabilities and messages count per job. "
    if any("live" in quantity for quantity in quantities.values()):
        text += (
            "Live values are measured in real processes. Simulated ones come from the same jobs, sent when they were "
            "sent, with the delays that were measured. Models know no delay: a longer simulation without any is "
            "compared with them. "
        )
    if any("simulated" in quantity for quantity in quantities.values()):
        text += (
            "Intervals (±) are 95% and for display; a verdict comes from tests with a stated rate of false alarms. "
            "Beside a tested difference stands how large it may be; a limit or mean field is not met by a finite "
            "system, so its gap is shown and not tested."
        )
    return element("p", text.strip(), class_="reading")


def _checks(summary: Mapping[str, Any]) -> Markup | None:
    """What must hold in every run, and whether the machine was up to it."""
    lines = []
    for check in summary.get("identities", []):
        exact = check["found"] == check["expected"]
        sign = "=" if exact else "≈" if check["holds"] else "≠"
        within = f" (within {check['tolerance']:.0f})" if check["tolerance"] and not exact else ""
        text = f"{check['text']}: {check['found']:.0f} {sign} {check['expected']:.0f}{within}"
        lines.append(_line("ok" if check["holds"] else "broken", text))
    if audit := summary.get("audit"):
        first, *more = audit_lines(audit)
        mark = "note" if audit["unchecked"] else "ok"
        lines.append(_line(mark if audit["holds"] else "broken", f"{capital(first)}."))
        lines += [_line("note", f"{capital(text.strip())}.") for text in more]
    lines += [_line("broken", f"Invalid: {reason}") for reason in summary.get("invalid", [])]
    lines += [_line("note", text) for text in [*_steadiness(summary), *_machine(summary)]]
    if not lines:
        return None
    return section("Identities and validity", element("ul", lines, class_="lines"))


def _line(kind: str, text: str) -> Markup:
    sign = {"ok": "✓", "broken": "✗", "note": "·"}[kind]
    return element("li", element("span", sign, class_="sign"), text, class_=kind)


def _steadiness(summary: Mapping[str, Any]) -> list[str]:
    found = summary.get("stationarity") or {}
    if found.get("state") == "steady" and found.get("growth") is not None:
        return [f"The halves of the window agree: jobs in the system {found['growth']:.3f}-fold in the second one."]
    return [str(found["why"])] if found.get("why") else []


def _machine(summary: Mapping[str, Any]) -> list[str]:
    lines = []
    if (lateness := summary.get("lateness_p99_units")) is not None:
        lines.append(
            f"Lateness of the generator, p99: {lateness:.4f} time units; {LATENESS_LIMIT_UNITS:g} are allowed."
        )
    if (delay := summary.get("delay_p99_units")) is not None:
        lines.append(f"Delay of messages, p99: {delay:.4f} time units; {DELAY_LIMIT_UNITS:g} are allowed.")
    if lag_s := summary.get("timer_lag_s"):
        p50, p99 = ("unknown" if value is None else f"below {value * 1e3:.2g} ms" for value in lag_s)
        lines.append(f"Lag of the servers' timers: p50 {p50}, p99 {p99}.")
    if cpu := summary.get("cpu"):
        name = max(cpu, key=lambda process: cpu[process] or 0.0)
        lines.append(f"Busiest process: {name}, {cpu[name] or 0.0:.0%} of a core; {CPU_LIMIT:.0%} are allowed.")
    if reasons := summary.get("reasons"):
        lines.append("Failed jobs: " + ", ".join(f"{count} {reason}" for reason, count in reasons.items()) + ".")
    if "tests" in summary:
        alarms = summary.get("false_alarms")
        rate = f"; the chance that any of them calls equal things different is {alarms:g}" if alarms else ""
        lines.append(f"Tests made: {summary['tests']}{rate}.")
    return lines + [str(line).strip() for line in summary.get("trace", [])]


def _models(quantities: Mapping[str, Any]) -> Markup | None:
    """Each model once: what it is, who has shown it, and what it assumes."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for name, quantity in quantities.items():
        for model in quantity.get("models", {}).values():
            found.setdefault((model["kind"], model["source"], model["assumes"]), []).append(name)
    if not found:
        return None
    items = []
    for (sort, source, assumes), names in found.items():
        about = list(dict.fromkeys(family(name) for name in names))
        items += [
            element("dt", sort),
            element(
                "dd",
                f"{capital(source)}. Assumes: {assumes or 'nothing further'}. Speaks of ",
                join([link(name) for name in about], ", "),
                ".",
            ),
        ]
    return section("Models", element("dl", items))
