"""The page of troubles has every status, every reason to stop and every exit code."""

import re

import pytest
from support.pages import ROOT

import fedualex as fx
from fedualex.cli.common import STOPS, BadInput, exit_code
from fedualex.cli.runs import VERIFIED

PAGE = (ROOT / "docs/faq.md").read_text()
ROWS = dict(re.findall(r"^\| `?(\w+)`? \| (.*) \|$", PAGE, flags=re.MULTILINE))


@pytest.mark.parametrize("word", [*fx.Status, *fx.Stop], ids=str)
def test_every_word_of_a_run_is_explained(word):
    meaning, todo = ROWS[word.name].split(" | ")
    assert meaning.endswith(".")
    assert todo


def test_every_exit_code_is_explained():
    words = [{"status": status.name, "stop": stop.name} for status in fx.Status for stop in fx.Stop]
    of_runs = {exit_code(word, tol) for word in words for tol in (None, 0.1)}
    codes = of_runs | set(STOPS.values()) | set(VERIFIED.values()) | {BadInput.exit_code}
    assert {row for row in ROWS if row.isdigit()} == {str(code) for code in codes}


def test_the_reference_of_the_command_line_has_the_same_codes():
    page = (ROOT / "docs/cli.md").read_text()
    codes = re.findall(r"^\| (\d+) \| [^|]*\|$", page, flags=re.MULTILINE)
    assert set(codes) == {row for row in ROWS if row.isdigit()}
