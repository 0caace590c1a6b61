"""The twelve recipes of docs/extending.md: their code runs, and the files and names that they send a reader to exist."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "extending"
FILE = re.compile(r"^```\{literalinclude\} \.\./examples/extending/(\w+\.py)$", flags=re.MULTILINE)
INSIDE = ("Output", "Status", "Command")
"""Recipes that need a change inside of the package."""


def read_recipes():
    """The text of each recipe by its title."""
    parts = re.split(r"^## (.*)\n", (ROOT / "docs/extending.md").read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


RECIPES = read_recipes()


def test_there_are_the_twelve_recipes_that_people_need():
    expected = [
        "Family",
        "Regularizer",
        "Method",
        "Exchanges of its own",
        "Problem",
        "Loss",
        "Output",
        "Engine",
        "Status",
        "Command",
        "Option",
        "Summary",
    ]
    assert list(RECIPES) == expected


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_shows_a_file_or_an_excerpt(name):
    text = RECIPES[name]
    kinds = re.findall(r"^```(\S+)(?: .*)?$", text, flags=re.MULTILINE)
    assert kinds == (["text"] if name in INSIDE else ["{literalinclude}"])


def test_every_file_is_shown():
    shown = {path for text in RECIPES.values() for path in FILE.findall(text)}
    assert shown == {path.name for path in EXAMPLES.glob("*.py")}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name in RECIPES if name not in INSIDE])
def test_the_code_of_a_recipe_runs(name):
    (file,) = FILE.findall(RECIPES[name])
    runpy.run_path(str(EXAMPLES / file), run_name=f"recipe_{name.lower()}")


@pytest.mark.parametrize("name", RECIPES)
def test_the_files_of_a_recipe_hold_the_names_to_look_for(name):
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", RECIPES[name], flags=re.MULTILINE)
    assert len(rows) >= 4
    for file, symbol in rows:
        assert symbol in (ROOT / file).read_text(), f"{file} has no {symbol}"


@pytest.mark.parametrize("name", INSIDE)
def test_an_excerpt_is_what_the_package_has(name):
    """Each of its lines stands in one of the recipe's files."""
    files = re.findall(r"^\| `(src/[^`]+)` \|", RECIPES[name], flags=re.MULTILINE)
    lines = "\n".join((ROOT / file).read_text() for file in files).splitlines()
    for line in "".join(blocks(RECIPES[name], "text")).splitlines():
        assert line in lines
