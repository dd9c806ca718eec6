"""What the tests of the report share: a reader of pages that is strict, and the JSON object of a small run."""

from __future__ import annotations

from html.parser import HTMLParser

from services.measure.curves import curves
from services.measure.quantities import Window
from services.measure.records import Run
from tests.unit.test_measure import fleet, no_messages, records

VOID = {"meta", "br", "hr", "use", "path", "rect", "line", "circle"}
URLS = ("src", "href", "action", "data", "poster", "srcset", "xlink:href")


class Page(HTMLParser):
    """Reads a page, and fails on a tag that is closed wrongly."""

    def __init__(self, text):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.styles: list[str] = []
        self.texts: list[str] = []
        assert text.startswith("<!DOCTYPE html>\n")
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in ("meta", "br", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        given = dict(attrs)
        assert len(given) == len(attrs), f"<{tag}> has an attribute twice"
        self.tags.append((tag, given))
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[name] for name in URLS if name in given]
        self.styles += [given["style"]] if "style" in given else []

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join("".join(self.texts).split())

    def named(self, tag):
        return [attributes for found, attributes in self.tags if found == tag]


def quantity(value, *, columns=("live", "simulated"), verdict="agree", model=None):
    """A row of the JSON object; lists have no intervals here."""
    interval = None if isinstance(value, list) else [value - 0.1, value + 0.1]
    found = {column: {"value": value, "ci95": interval or [value, value]} for column in columns}
    if model is not None:
        found["models"] = {
            "closed": {"value": model, "kind": "closed form", "source": "Erlang 1917", "assumes": "no delay",
                       "exact": True,
                       "test": {"verdict": "agree", "difference": 0.25, "margin": 0.25, "noise": 0.5}}
        }  # fmt: skip
    if "live" in columns:
        found["test"] = {"verdict": verdict, "difference": -0.125, "margin": 0.25, "noise": None}
    return found | {"verdict": verdict}


def summary(*, columns=("live", "simulated"), verdict="agree", pool="slow", **more):
    """The JSON object of a run."""
    tail = [1.0, 0.5, 0.25, 0.125]
    quantities = {
        "sojourn_mean": quantity(2.0, columns=columns, model=2.5, verdict=verdict),
        "sojourn_p50": quantity(1.5, columns=columns, model=1.25),
        "sojourn_p99": quantity(6.0, columns=columns),
        "waiting_mean": quantity(1.0, columns=columns, model=1.5),
        "wait_probability": quantity(0.5, columns=columns),
        "block_probability": quantity(0.0, columns=columns),
        "queue_tail": quantity(tail, columns=columns, model=[1.0, 0.5, 0.25]),
        f"utilisation.{pool}": quantity(0.5, columns=columns, model=0.5),
        f"job_share.{pool}": quantity(1.0, columns=columns),
        "messages.pull": quantity(0.75, columns=columns),
        "messages.total": quantity(0.75, columns=columns),
    }
    found = {
        "scenario": "small", "policy": "pull", "valid": True, "verdict": verdict, "values": {},
        "quantities": quantities, "invalid": [], "hints": [],
    }  # fmt: skip
    return found | more


def curves_of_a_run():
    """Of the jobs 0, 1, … 39, each of which waits a little longer and is served for one time unit."""
    rows = [(float(job), 0, job / 10.0, 1.0, 0) for job in range(40)]
    return curves(Run(fleet(), records(rows), no_messages()), Window(10.0, 40.0, 4))
