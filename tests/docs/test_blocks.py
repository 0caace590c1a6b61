"""Every block of code in README and docs/ is executed, or says why not, or is output.

The blocks of a page run in their order, in one folder: `python` in one namespace, `sh` in bash, and `toml` is read, and
kept under the name that its first line is a comment of. A block without a language, or `text`, is output or a formula:
right after a block that ran, each of its lines must have been printed. Words and whole numbers must be the same, and
other numbers agree to 2%; seconds are not compared. After a comment `<!-- numbers vary: why -->` numbers agree if they
are within a factor of two. `make docs-numbers` writes what blocks print now into the pages.
"""

import importlib.util
import re
import tomllib

import pytest
from support.blocks import run_page, same_output, surroundings
from support.pages import ROOT, fences, name_of, pages

LANGUAGES = {"python", "sh", "toml", "text", ""}
COMMAND = re.compile(r"^(make|fedualex|pip|python|pytest|\.venv/bin/\w+|import \w+|from \w+ import) ?")


def runs(page):
    return any(fence.language in ("python", "sh") and not fence.reason for fence in fences(page.read_text()))


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_blocks_are_code_that_can_be_read_or_output(page):
    for fence in fences(page.read_text()):
        where = f"{name_of(page)}:{fence.line}"
        assert fence.language in LANGUAGES, f"{where}: {fence.language} is neither executed nor output"
        if fence.language == "python":
            compile(fence.text, where, "exec")
        elif fence.language == "toml":
            tomllib.loads(fence.text)
        elif fence.language == "":
            assert not COMMAND.match(fence.text), f"{where}: a command, but not marked as one"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_commands_stand_in_blocks_that_name_their_language(page):
    """Not in paragraphs that are merely indented, which nobody would execute."""
    outside = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    indented = re.findall(r"(?<=\n\n) {4}(.*)$", outside, flags=re.MULTILINE)
    assert [line for line in indented if COMMAND.match(line)] == []


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in pages() if runs(page)], ids=name_of)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in surroundings().items():
        monkeypatch.setenv(name, value)
    for fence, printed, where in run_page(page):
        check_output(fence, printed, where)


def check_output(fence, printed, where):
    """Each line of the page, in its order; `...` stands for left-out lines."""
    rest = printed.splitlines()
    for line in fence.text.splitlines():
        if line.strip() in ("", "..."):
            continue
        found = [n for n, candidate in enumerate(rest) if same_output(line, candidate, bool(fence.varies))]
        assert found, f"{where}: not printed: {line}\nbut:\n{printed}"
        rest = rest[found[0] + 1 :]


def test_numbers_of_a_page_are_renewed_and_words_that_are_gone_are_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# Sums\n\n```python\nprint('two and two:', 4)\nprint('done in 7 s')\n```\n\n```\n%s\n```\nEnd.\n")
    stale = page.read_text() % "two and two: 5\ndone in 9 s\nthree: 3"
    page.write_text(stale)
    specification = importlib.util.spec_from_file_location("renew_numbers", ROOT / "docs" / "renew_numbers.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    assert module.renew(page) == [f"{page}:11: three: 3"]
    assert page.read_text() == stale.replace("two: 5", "two: 4")


@pytest.mark.parametrize(
    ("page", "run", "same"),
    [
        ("gap <= 0.00915, 43 exchanges, 7.8 s", "gap <= 0.00920, 43 exchanges, 123 s", True),
        ("gap <= 0.00915, 43 exchanges, 7.8 s", "gap <= 0.00962, 43 exchanges, 7.8 s", False),
        ("gap <= 0.00915, 43 exchanges, 7.8 s", "gap <= 0.00915, 44 exchanges, 7.8 s", False),
        ("rounding 5.9e-13 of -1.25", "rounding 2.1e-13  of -1.25", True),
        ("26 of 30 are not 0", "26 of 30 are 0", False),
    ],
)
def test_outputs_are_compared_by_words_and_numbers(page, run, same):
    assert same_output(page, run) is same


@pytest.mark.parametrize(("run", "same"), [("gap <= 0.015, 60 rounds", True), ("gap <= 0.021, 43 rounds", False)])
def test_numbers_that_vary_agree_within_a_factor_of_two(run, same):
    assert same_output("gap <= 0.01, 43 rounds", run, varies=True) is same
