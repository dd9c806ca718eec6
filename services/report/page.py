"""What the pages of all commands have in common: one file that opens anywhere and needs no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from services.report.drawing import Drawing
from services.report.markup import Markup, element
from services.report.quantities import EXPLAINED

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The browser itself makes sure that nothing is loaded from elsewhere."""

Facts = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Subject:
    """What a page is about, in words; all of it may hold any characters.

    Attributes:
        command: The command that has produced it, for instance "live run".
        title, source: Of the scenario.
        verdict: Its word, and the sentence that explains it.
        system: What was run: policy, fleet, load. `machine`: versions and host.
        toml: The scenario as run. `again`: how to run it again.
        files: What lies beside the page, each with one line that says what it is.
    """

    command: str
    title: str
    source: str
    verdict: tuple[str, str]
    system: Facts
    machine: Facts
    toml: str
    again: Sequence[str]
    files: Facts


@dataclass(frozen=True)
class Headline:
    """What a reader sees first.

    Attributes:
        word: Decides the colour: one of a verdict, or `invalid`.
        text: A few words. `lines`: what more there is to say.
    """

    word: str
    text: str
    lines: Sequence[str]


def page(subject: Subject, headline: Headline, sections: Sequence[Markup | None], names: Sequence[str]) -> str:
    """What all pages have in common, around the sections of one of them.

    Args:
        subject: What it is about.
        headline: What comes first.
        sections: Of this page.
        names: Of the quantities whose explanations are wanted.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("title", f"{subject.title} — Herdless"),
        element("style", Markup(_css())),
    )
    main = element(
        "main",
        element(
            "header",
            element("p", f"Herdless · {subject.command}", class_="kind"),
            element("h1", subject.title),
            element("p", subject.source, class_="source") if subject.source else None,
            _headline(headline),
        ),
        list(sections),
        section(
            "What was run",
            facts(subject.system),
            element("h3", "Scenario"),
            element("pre", element("code", subject.toml)),
        ),
        section(
            "Run it again",
            element("p", "In the folder of this page:"),
            element("pre", element("code", "\n".join(subject.again)), class_="wrap"),
            facts(subject.machine),
        ),
        section("Files", facts([(name, text) for name, text in subject.files], linked=True)),
        _words(names),
        element(
            "footer",
            element(
                "p",
                "A time unit is the mean service time at rate 1 of a job of mean size; in slotted time it is a slot.",
            ),
        ),
    )
    return "<!DOCTYPE html>\n" + element("html", head, element("body", main), lang="en") + "\n"


def section(heading: str, *content: Any, id: str | None = None) -> Markup:
    """A part of the page with its heading."""
    return element("section", element("h2", heading), *content, id=id)


def facts(pairs: Facts, linked: bool = False) -> Markup:
    """Names and what belongs to them."""
    return element(
        "dl",
        [
            [element("dt", element("a", name, href=name) if linked else name), element("dd", text)]
            for name, text in pairs
        ],
    )


def figures_section(drawings: Sequence[Drawing]) -> Markup | None:
    """All figures, each with its files for a paper."""
    if not drawings:
        return None
    return section("Figures", element("div", [_figure(drawing) for drawing in drawings], class_="figures"))


def _figure(drawing: Drawing) -> Markup:
    path = f"figures/{drawing.name}"
    return element(
        "figure",
        element("h3", drawing.title),
        Markup(drawing.inline()),
        element(
            "figcaption", drawing.caption, " ",
            element(
                "span", element("a", "SVG", href=f"{path}.svg"), " · ", element("a", "PDF", href=f"{path}.pdf"),
                class_="files",
            ),
        ),
    )  # fmt: skip


def _css() -> str:
    return files(__package__).joinpath("page.css").read_text(encoding="utf-8")


def _headline(headline: Headline) -> Markup:
    return element(
        "div",
        element("p", headline.text, class_="word"),
        [element("p", line) for line in headline.lines],
        class_=f"verdict word-{headline.word}", role="note", aria_label="Verdict",
    )  # fmt: skip


def _words(names: Sequence[str]) -> Markup | None:
    if not names:
        return None
    items = []
    for name in names:
        explained = EXPLAINED[name]
        measure = "Counted" if explained.unit.startswith(("per ", "of ")) else "In"
        unit = f" {measure} {explained.unit}." if explained.unit else ""
        items += [
            element("dt", explained.title, element("br"), element("code", name), id=f"q-{name}"),
            element("dd", explained.text, unit),
        ]
    return section("Words", element("dl", items), id="words")
