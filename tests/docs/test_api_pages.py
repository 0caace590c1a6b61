"""The reference has every public name."""

import importlib
import re
import sys

import pytest
from support.pages import ROOT

import fedualex as fx

sys.path.insert(0, str(ROOT / "docs" / "_ext"))

import listings

ROOMS = ("algorithms", "data", "deploy", "estimators", "field", "models", "problems", "reference", "testing", "theory")


def listed():
    """The names that the pages of the reference ask autodoc for, each or as members of a listing."""
    text = "\n".join(listings.expanded(page.read_text()) for page in (ROOT / "docs/reference").glob("*.md"))
    return set(re.findall(r"^\.\. auto\w+:: fedualex\.([\w.]+)$", text, flags=re.MULTILINE))


def test_every_name_of_the_package_is_in_the_reference():
    assert set(fx.__all__) - set(ROOMS) - listed() == set()


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_of_a_room_is_in_the_reference(room):
    names = importlib.import_module(f"fedualex.{room}").__all__
    missing = {name for name in names if f"{room}.{name}" not in listed()} - set(fx.__all__)
    assert missing == set()
