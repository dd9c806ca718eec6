"""The table of a run: measured, simulated and predicted beside one another, and what was tested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from services.report.markup import Markup, element, join
from services.report.quantities import EXPLAINED, GROUPS, family, group, title
from services.report.values import COLUMNS, kind, measured, number, predicted

TAIL_ROWS = 6
LOWEST_SHARE = 1e-3

WORDS = {
    "agree": ("✓", "agree"),
    "differ": ("✗", "differ"),
    "not_enough_data": ("?", "too little data"),
    "limit": ("→", "limit"),
    "not_compared": ("·", "not compared"),
    "invalid": ("✗", "invalid"),
}

Quantity = Mapping[str, Any]
Quantities = Mapping[str, Quantity]


def badge(word: str) -> Markup:
    """A verdict, told by sign, word and colour."""
    sign, text = WORDS.get(word, ("", word))
    return element("span", f"{sign} {text}", class_=f"badge word-{word}")


def link(name: str, text: str | None = None) -> Markup:
    """A quantity's title, which leads to its explanation and shows it when pointed at."""
    base = family(name)
    if base not in EXPLAINED:
        return element("span", text or name)
    return element("a", text or title(name), href=f"#q-{base}", title=EXPLAINED[base].text)


def quantities_table(quantities: Quantities) -> Markup:
    """All quantities in which there is something to see, under their headings."""
    shape = _Shape(quantities)
    bodies = []
    for heading in [*GROUPS, "Further quantities"]:
        rows = [
            row
            for name, quantity in quantities.items()
            if group(name) == heading and not (shape.one_pool and _says_it_again(name))
            for row in _rows(name, quantity, shape)
        ]
        if rows:
            first = element("tr", element("th", heading, scope="rowgroup", colspan=str(len(shape.head))))
            bodies.append(element("tbody", first, rows))
    header = element("thead", element("tr", [element("th", text, scope="col") for text in shape.head]))
    return scrolling(element("table", header, bodies), "Quantities")


class _Shape:
    """Which columns the table has: those that the command has produced."""

    def __init__(self, quantities: Quantities) -> None:
        self.columns = [column for column in COLUMNS if any(column in quantity for quantity in quantities.values())]
        self.paired = any("test" in quantity for quantity in quantities.values())
        self.against = any(_tests(quantity) for quantity in quantities.values())
        self.one_pool = sum(name.startswith("utilisation.") for name in quantities) == 1
        self.head = [
            "quantity",
            *(["verdict"] if self.columns else []),
            *self.columns,
            "model",
            *(["live − simulated"] if self.paired else []),
            *(["simulated − model"] if self.against else []),
        ]


def scrolling(table: Markup, label: str) -> Markup:
    """A table that may be wider than the screen; the keyboard can move it."""
    return element("div", table, class_="scroll", role="region", tabindex="0", aria_label=label)


def _says_it_again(name: str) -> bool:
    """Of a pool that is the only one."""
    return group(name) == "Pools" and not name.startswith("utilisation.")


def _rows(name: str, quantity: Quantity, shape: _Shape) -> Iterator[Markup]:
    is_list = any(isinstance(part.get("value"), list) for part in _parts(quantity))
    if is_list and name != "queue_tail":
        return  # the tails of the pools are in the JSON object
    for k in range(1, TAIL_ROWS + 1) if is_list else (None,):
        dots = {column: measured(quantity, column, k) for column in shape.columns}
        models = predicted(quantity, k)
        values = [abs(dot.value) for dot in dots.values() if dot] + [abs(value) for value in models.values()]
        if max(values, default=0.0) <= (LOWEST_SHARE if is_list else 0.0):
            return
        first = k in (None, 1)
        cells = [badge(quantity.get("verdict", "not_compared")) if first else ""] if shape.columns else []
        yield element(
            "tr",
            element("th", link(name, None if k is None else f"{title(name)} [{k}]"), scope="row"),
            [element("td", cell) for cell in cells],
            [element("td", dot.text if dot else "", class_=column) for column, dot in dots.items()],
            element("td", _models(quantity, models), class_="model"),
            element("td", _difference(quantity.get("test")) if first else "", class_="by") if shape.paired else None,
            element("td", _of_models(quantity) if first else "", class_="by") if shape.against else None,
        )


def _parts(quantity: Quantity) -> list[Mapping[str, Any]]:
    return [*(quantity[column] for column in COLUMNS if column in quantity), *quantity.get("models", {}).values()]


def _models(quantity: Quantity, models: Mapping[str, float]) -> Markup:
    """Each method on a line of its own."""
    return join(
        [
            join([number(value), " ", element("span", kind(quantity, method), class_="by")])
            for method, value in models.items()
        ],
        "<br>",
    )


def _tests(quantity: Quantity) -> list[Mapping[str, Any]]:
    return [model["test"] for model in quantity.get("models", {}).values() if "test" in model]


def _of_models(quantity: Quantity) -> Markup:
    return join([_difference(model.get("test")) for model in quantity.get("models", {}).values()], "<br>")


def _difference(test: Mapping[str, Any] | None) -> str:
    """The difference, and how large chance and what is of no interest may make it."""
    if test is None:
        return ""
    found = test.get("difference")
    if test["verdict"] == "limit" and found is not None:
        return f"gap {_signed(found)}"
    if test.get("noise") is None or found is None:
        return "not tested"
    return f"{_signed(found)} of\u00a0±\u2009{number(test['margin'] + test['noise'])}"


def _signed(value: float) -> str:
    return f"{'−' if value < 0.0 else '+'}{number(abs(value))}"
