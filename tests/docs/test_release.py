"""One version everywhere, and a changelog that has it."""

import re

import pytest
from support.pages import ROOT

import fedualex as fx


@pytest.mark.parametrize(
    ("file", "pattern"),
    [("CITATION.cff", r"^version: (.*)$"), ("CHANGELOG.md", r"^## (\d.*)$")],
)
def test_a_file_has_the_version_of_the_package(file, pattern):
    assert re.search(pattern, (ROOT / file).read_text(), flags=re.MULTILINE)[1] == fx.__version__


def test_the_version_is_written_in_one_place_of_the_package():
    assert not re.search(r'^version = "', (ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE)
