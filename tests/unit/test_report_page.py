"""The page of a run: well formed, alone, escaped, and complete whatever columns there are."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from services.measure.quantities import Window, measure
from services.measure.records import Run
from services.report.figures import run_figures
from services.report.page import Subject
from services.report.quantities import EXPLAINED, family, group, title
from services.report.run_page import run_page
from services.report.sentences import verdict_sentence
from tests.unit.report_parts import Page, curves_of_a_run, summary
from tests.unit.test_measure import fleet, no_messages, records

EVIL = "<script>alert('1')</script> & \"two\" $x$"

SUBJECT = Subject(
    command="live run", title="A run", source="Erlang 1917", verdict=("agree", "Nothing differs."),
    system=[("Policy", "pull")], machine=[("Python", "3")], toml="seed = 1", again=["herdless run scenario.toml"],
    files=[("summary.json", "everything")],
)  # fmt: skip


def made(found, curves=None, subject=SUBJECT):
    return Page(run_page(subject, found, run_figures(found["quantities"], curves or {}, 10.0)))


@pytest.fixture(scope="module")
def page():
    curves = curves_of_a_run()
    return made(summary(), {"live": curves, "simulated": curves})


def test_nothing_is_loaded_from_elsewhere(page) -> None:
    assert [tag for tag, _ in page.tags if tag in ("script", "link", "img", "iframe", "object", "embed", "base")] == []
    local = re.compile(r"#|figures/[a-z-]+\.(svg|pdf)$|summary\.json$")
    assert [link for link in page.links if not local.match(link)] == []
    assert "http" not in " ".join(page.styles)
    assert "@import" not in page.text and "url(h" not in page.text


def test_links_within_the_page_lead_somewhere_and_ids_are_unique(page) -> None:
    assert len(page.ids) == len(set(page.ids))
    wanted = {link[1:] for link in page.links if link.startswith("#")}
    wanted |= {id for _, given in page.tags for id in re.findall(r"url\(#([^)]*)\)", str(given))}
    assert wanted - set(page.ids) == set()


def test_it_says_whether_the_run_adds_up() -> None:
    audit = {"holds": True, "jobs": 40, "traced": 38, "mismatches": [], "accounted": {"lost": 2}, "unchecked": []}
    fine, broken = (made(summary(audit=audit | {"holds": holds})) for holds in (True, False))
    assert "✓Audit: 40 jobs sent, 38 followed from end to end: everything adds up.·Lost: 2." in fine.text
    assert "✗Audit: 40 jobs sent, 38 followed from end to end: the books do not balance." in broken.text
    part = made(summary(audit=audit | {"unchecked": ["x"], "logs": [{}]}))
    assert "·Audit: 40 jobs sent, 38 followed from end to end: not everything could be checked; " in part.text


def test_it_has_headings_headers_and_names_for_figures(page) -> None:
    assert [tag for tag, _ in page.tags if tag == "h1"] == ["h1"]
    assert all(given.get("scope") for given in page.named("th"))
    drawings = page.named("svg")
    assert len(drawings) == 5
    assert all(given["role"] == "img" and given["aria-label"] and "viewbox" in given for given in drawings)
    assert {"lang": "en"} in page.named("html")


def test_values_intervals_models_and_tests_stand_in_the_table(page) -> None:
    for text in ("2.000\u00a0±\u20090.100".replace("\u00a0", " ").replace("\u2009", " "), "2.500 closed form"):
        assert text in page.text.replace("\u2009", " ")
    assert "+0.2500 of" in page.text  # the difference from the model, of 0.25 + 0.5 allowed
    assert "not tested" in page.text  # live against simulated has no noise here


def test_what_users_write_is_escaped_everywhere() -> None:
    evil = replace(
        SUBJECT, title=EVIL, source=EVIL, verdict=("agree", EVIL), system=[(EVIL, EVIL)], machine=[(EVIL, EVIL)],
        toml=EVIL, again=[EVIL], files=[(EVIL, EVIL)],
    )  # fmt: skip
    found = summary(pool=EVIL, invalid=[EVIL], hints=[EVIL], trace=[EVIL], cpu={EVIL: 0.5}, reasons={EVIL: 1})
    found["identities"] = [{"name": "x", "text": EVIL, "found": 1.0, "expected": 2.0, "tolerance": 0.0, "holds": False}]
    page = made(found, subject=evil)
    assert page.named("script") == []
    assert page.text.count(EVIL) >= 14


def test_pool_names_are_not_formulas() -> None:
    drawings = {drawing.name: drawing for drawing in run_figures(summary(pool="$x^2$")["quantities"], {}, 0.0)}
    assert ">$x^2$</text>" in drawings["pools"].svg


@pytest.mark.parametrize("columns", [("simulated",), ("live", "simulated"), ()])
def test_columns_that_the_command_did_not_produce_are_left_out(columns) -> None:
    found = summary(columns=columns, verdict="not_compared")
    heads = [text for text in ("live", "simulated") if text in columns]
    text = made(found).text
    assert f"quantity {'verdict ' if columns else ''}{' '.join([*heads, 'model'])} " in _headings(found)
    assert ("Live values are measured" in text) == ("live" in columns)


def _headings(found):
    page = run_page(SUBJECT, found, [])
    return " ".join(re.findall(r"<th scope=\"col\">([^<]*)</th>", page)) + " "


def test_an_invalid_run_says_so_first() -> None:
    page = made(summary(invalid=["the generator was late"], valid=False))
    assert page.text.index("✗ Invalid") < page.text.index("the generator was late") < page.text.index("Quantities")


def test_a_run_of_nothing_is_a_page_too() -> None:
    found = summary() | {"quantities": {}}
    assert made(found).named("svg") == []


def test_every_quantity_is_explained() -> None:
    rows = [(1.0, 0, 0.0, 1.0, 0)]
    names = measure(Run(fleet(), records(rows), no_messages()), Window(0.0, 4.0, 4))
    assert {name for name in names if family(name) not in EXPLAINED} == set()
    assert {group(name) for name in names} & {"Further quantities"} == set()
    assert title("utilisation.a") == "utilisation, a"
    assert title("messages.pull") == "pull-messages"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"verdict": "agree"}, "Nothing that was tested differs."),
        ({"verdict": "differ"}, "Something that should be equal is not: mean sojourn."),
        ({"verdict": "agree", "invalid": ["late"]}, "Nothing that was tested differs. But the run is invalid."),
        ({"verdict": "limit"}, "Only limits are known, which a finite system does not meet: the gap is shown."),
    ],
)  # fmt: skip
def test_the_verdict_is_a_sentence(changes, expected) -> None:
    assert verdict_sentence(summary(**changes)) == expected
