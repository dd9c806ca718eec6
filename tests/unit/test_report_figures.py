"""Figures: which there are, that they are the same each time, and that their text stays text."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from services.report.drawing import NAMES, PURPLE, spread
from services.report.figures import run_figures
from tests.unit.report_parts import curves_of_a_run, quantity, summary

ALL = ["queue-tails", "sojourn-tail", "waiting-in-time", "pools", "messages"]


@pytest.fixture(scope="module")
def drawings():
    curves = curves_of_a_run()
    return run_figures(summary()["quantities"], {"live": curves, "simulated": curves}, 10.0)


def test_the_same_run_gives_the_same_bytes(drawings) -> None:
    curves = curves_of_a_run()
    again = run_figures(summary()["quantities"], {"live": curves, "simulated": curves}, 10.0)
    assert [drawing.name for drawing in drawings] == ALL
    assert [(drawing.svg, drawing.pdf) for drawing in drawings] == [(drawing.svg, drawing.pdf) for drawing in again]


def test_no_date_and_no_maker_is_in_the_files(drawings) -> None:
    for drawing in drawings:
        assert "<dc:date>" not in drawing.svg and b"CreationDate" not in drawing.pdf
        assert drawing.pdf.startswith(b"%PDF-")


def test_text_stays_text_and_fonts_are_embedded_as_outlines(drawings) -> None:
    for drawing in drawings:
        root = ElementTree.fromstring(drawing.svg)  # and so it is well formed
        words = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
        assert any("job" in str(word) or "time" in str(word) or "utilisation" in str(word) for word in words)
        assert b"/FontFile2" in drawing.pdf  # TrueType, as publishers want it


def test_axes_name_their_units(drawings) -> None:
    by_name = {drawing.name: drawing.svg for drawing in drawings}
    assert "sojourn time t (time units)" in by_name["sojourn-tail"]
    assert "mean waiting (time units)" in by_name["waiting-in-time"]
    assert "control messages per job" in by_name["messages"]


def test_on_a_page_the_colours_are_the_pages(drawings) -> None:
    for drawing in drawings:
        inline = drawing.inline()
        assert not any(colour in inline for colour in NAMES)
        assert "var(--" in inline
        assert not re.search(r"<metadata|<\?xml|<!DOCTYPE|xlink", inline)


def test_what_went_wrong_is_marked_in_time() -> None:
    quantities, curves = summary()["quantities"], {"live": curves_of_a_run()}
    marks = [(3.0, "kill router-1"), (5.0, "restart router-1")]
    svg = {drawing.name: drawing.svg for drawing in run_figures(quantities, curves, 10.0, marks)}["waiting-in-time"]
    assert all(words in svg for _, words in marks)
    crowd = [(0.1 * number, f"kill servers-{number}") for number in range(30)]
    svg = {drawing.name: drawing.svg for drawing in run_figures(quantities, curves, 10.0, crowd)}["waiting-in-time"]
    assert "kill" not in svg and svg.count(PURPLE) >= 30


def test_without_data_there_is_no_figure() -> None:
    assert run_figures({}, {}, 0.0) == []
    silent = {"messages.total": quantity(0.0), "messages.pull": quantity(0.0)}
    assert run_figures(silent, {}, 0.0) == []


def test_a_solution_is_drawn_from_its_models_alone() -> None:
    names = [drawing.name for drawing in run_figures(summary(columns=())["quantities"], {}, 0.0)]
    assert names == ["queue-tails", "pools"]


def test_labels_move_apart_only_as_far_as_they_must() -> None:
    assert spread([1.0, 5.0], 1.0) == [1.0, 5.0]
    # Two that are 0.2 apart move to 1 apart around their middle, 1.1; order is kept, whatever it was given in.
    assert spread([1.2, 1.0], 1.0) == pytest.approx([1.6, 0.6])
    # A third at 2.5 is 0.9 from 1.6, so all move: centre (1.0 + 1.2 + 2.5) / 3 = 47/30.
    assert spread([1.0, 1.2, 2.5], 1.0) == pytest.approx([47 / 30 - 1, 47 / 30, 47 / 30 + 1])
