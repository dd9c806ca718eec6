"""One word for one thing, and none that ties the repository to a machine or an index."""

from __future__ import annotations

import re
import tokenize

from tests.tidy.tree import PACKAGES, ROOT, files, python_files

# Joined here so that this file does not contain what it looks for.
HOSTS = ["py" + "pi.org", "python" + "hosted.org", "np" + "mjs.org", "deb." + "debian.org"]
FOLDERS = ["/ro" + "ot/", "/wo" + "rk/", "/ho" + "me/", "/opt/" + "pypi", "/Us" + "ers/"]
# A path starts where no longer path goes on: docs/root/ is one of ours.
PLACES = re.compile("|".join([re.escape(host) for host in HOSTS] + [rf"(?<![\w.$}}]){folder}" for folder in FOLDERS]))

FORBIDDEN_NAMES = re.compile("latency|dispatcher", re.IGNORECASE)


def test_no_file_names_an_index_or_a_place_on_a_machine() -> None:
    found = []
    for path in files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture or another binary file
        for number, line in enumerate(text.splitlines(), 1):
            if PLACES.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert found == []


def test_identifiers_use_the_words_of_the_glossary() -> None:
    found = []
    for path in python_files(*PACKAGES):
        with path.open("rb") as file:
            names = [token for token in tokenize.tokenize(file.readline) if token.type == tokenize.NAME]
        wrong = [token for token in names if FORBIDDEN_NAMES.search(token.string)]
        found += [f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}" for token in wrong]
    assert found == []


def test_nothing_is_left_for_later() -> None:
    unfinished = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in python_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if unfinished.search(line)
    ]
    assert found == []
