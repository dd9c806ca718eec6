"""How figures look: legible in print, in grey, to colour-blind eyes, and on light and dark screens.

The same run gives the same bytes: no dates, no random ids.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

INK, FAINT, PAPER = "#1a1a1a", "#8c8c8c", "#fefefe"
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
"""Source of the colours: Okabe and Ito 2008, Color Universal Design."""

NAMES = {INK: "ink", FAINT: "faint", PAPER: "paper", BLUE: "blue", VERMILLION: "vermillion", GREEN: "green",
         PURPLE: "purple", ORANGE: "orange", SKY: "sky"}  # fmt: skip
"""What the page's style sheet calls them, so that it can give each a shade for a dark screen."""

LINES = tuple(zip((BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, INK), "osD^vPX", strict=True))
"""Colour and marker of the policies, one after the other: either of them tells which is which."""

WIDTH, HEIGHT = 4.6, 3.0
"""In inches: about a column of a paper, or a telephone."""

_STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "text.color": INK,
    "axes.labelsize": 9.0,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "axes.formatter.useoffset": False,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.0,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "text.parse_math": False,  # a "$" in the name of a pool is a "$"
    "svg.fonttype": "none",
    "svg.hashsalt": "herdless",
    "pdf.fonttype": 42,
}


@dataclass(frozen=True)
class Drawing:
    """A finished figure.

    Attributes:
        name: Of its files.
        title: A few words. `caption`: what is seen, and how to read it.
        svg, pdf: What goes into files.
    """

    name: str
    title: str
    caption: str
    svg: str
    pdf: bytes

    def inline(self) -> str:
        """The SVG as part of a page: as wide as its place, with the page's colours and ids that only it uses."""
        svg = self.svg[self.svg.index("<svg") :].strip()
        svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
        svg = svg.replace("xlink:href", "href")
        head, body = svg.split(">", 1)
        box = re.search(r'viewBox="([^"]*)"', head)
        used = set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", body))
        body = re.sub(r' id="([^"]*)"', lambda found: self._id(found[1]) if found[1] in used else "", body)
        body = re.sub(r"(url\(#|href=\"#)", rf"\g<1>{self.name}-", body)
        for colour, name in NAMES.items():
            body = body.replace(colour, f"var(--{name})")
        label = self.title.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
        return f'<svg viewBox="{box[1] if box else ""}" role="img" aria-label="{label}">{body}'

    def _id(self, id: str) -> str:
        return f' id="{self.name}-{id}"'


@contextmanager
def style() -> Iterator[None]:
    """All drawing happens inside."""
    with mpl.rc_context(), warnings.catch_warnings():
        # A letter that the font lacks is drawn by the reader's own fonts.
        warnings.filterwarnings("ignore", r"Glyph .* missing from font")
        mpl.rcdefaults()
        for setting, value in _STYLE.items():
            mpl.rcParams[setting] = value  # type: ignore[index]  # its type lists all names, ours are any text
        yield


def blank(columns: int = 1, height: float = HEIGHT, width: float = WIDTH) -> tuple[Figure, list[Axes]]:
    """A figure with some plots side by side."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, [figure.add_subplot(1, columns, place + 1) for place in range(columns)]


def finish(figure: Figure, name: str, title: str, caption: str) -> Drawing:
    """Make the bytes."""
    svg, pdf = io.BytesIO(), io.BytesIO()
    nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
    figure.savefig(svg, format="svg", metadata=nothing)
    figure.set_layout_engine("none")  # it is laid out now
    figure.savefig(pdf, format="pdf", metadata={"Creator": None, "Producer": None, "CreationDate": None})
    text = svg.getvalue().decode("utf-8").replace("'DejaVu Sans'", "Helvetica, Arial, 'DejaVu Sans', sans-serif")
    return Drawing(name, title, caption, text, pdf.getvalue())


def key(axes: Axes) -> None:
    """Say what is what, in one line above the plot."""
    found = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    if found:
        labels = [*(label for label in ("live", "simulated") if label in found),
                  *(label for label in found if label not in ("live", "simulated"))]  # fmt: skip
        handles = [found[label] for label in labels]
        _legend(axes, handles, labels)


def key_of(axes: Axes, handles: Sequence[Line2D]) -> None:
    """Say what these lines mean, in one line above the plot."""
    _legend(axes, handles, [str(handle.get_label()) for handle in handles])


def _legend(axes: Axes, handles: Sequence[Any], labels: Sequence[str]) -> None:
    figure = axes.figure
    figure.legend(
        handles, labels, loc="outside upper left", ncols=4, borderaxespad=0.2, handlelength=1.7, handletextpad=0.5,
        columnspacing=1.4,
    )  # fmt: skip


def rule(axes: Axes, which: str = "y") -> None:
    """Thin lines behind the data."""
    axes.set_axisbelow(True)
    axes.grid(axis="both" if which == "both" else "x" if which == "x" else "y", color=FAINT, alpha=0.25, linewidth=0.5)


def log_scale(axes: Axes, lowest: float, highest: float) -> None:
    """A logarithmic vertical axis, its powers of ten written out."""
    axes.set_yscale("log")
    axes.set_ylim(lowest, highest)
    axes.yaxis.set_major_formatter(lambda value, place: f"{value:g}" if value >= 1e-4 else f"{value:.0e}")
    axes.yaxis.set_minor_formatter(lambda value, place: "")


def log_width(axes: Axes, lowest: float, highest: float) -> None:
    """A logarithmic horizontal axis with round numbers on it."""
    axes.set_xscale("log")
    axes.set_xlim(lowest, highest)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(lambda value, place: f"{value:g}")
    axes.xaxis.set_minor_formatter(lambda value, place: "")


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """Move positions apart until none is nearer to the next than `gap`, each as little as may be."""
    order = sorted(range(len(positions)), key=lambda place: positions[place])
    groups: list[list[float]] = []  # centre, members: neighbours that touch move as one
    for place in order:
        groups.append([positions[place], 1.0])
        while len(groups) > 1 and groups[-1][0] - groups[-2][0] < gap * (groups[-1][1] + groups[-2][1]) / 2.0:
            centre, members = groups.pop()
            before, others = groups.pop()
            groups.append([(centre * members + before * others) / (members + others), members + others])
    placed = [
        centre + gap * (member - (members - 1.0) / 2.0) for centre, members in groups for member in range(int(members))
    ]
    found = [0.0] * len(positions)
    for place, position in zip(order, placed, strict=True):
        found[place] = position
    return found


def end_labels(axes: Axes, ends: Sequence[tuple[str, str, float, float]]) -> None:
    """Write the name of each line on the right of the plot.

    Args:
        axes: With its limits set.
        ends: Name, colour, and where the line ends.
    """
    to_axes = axes.transAxes.inverted()
    heights = [float(to_axes.transform(axes.transData.transform((x, y)))[1]) for _, _, x, y in ends]
    for (name, colour, x, y), height in zip(ends, spread(heights, 0.062), strict=True):
        axes.annotate(
            name, (x, y), (1.03, height), textcoords="axes fraction", va="center", fontsize=8.0, color=colour,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "alpha": 0.6, "shrinkA": 0.0,
                        "shrinkB": 2.0},
        )  # fmt: skip
