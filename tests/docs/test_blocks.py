"""Every block of code in README and docs/ is executed, or says why not, or is output.

The blocks of a page run in their order, in one folder: `python` in one namespace, `sh` in bash, and `toml` is read, and
kept under the name that its first line is a comment of. A block without a language, or `text`, is output or a formula:
right after a block that ran, each of its lines must have been printed. Words and whole numbers must be the same, and
other numbers agree to 2%; seconds are not compared. After a comment `<!-- numbers vary: why -->` numbers agree if they
are within a factor of two.
"""

import contextlib
import io
import math
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support import patients
from support.pages import fences, name_of, pages

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
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for table in ("patients.csv", "new.csv", "other.csv"):  # what a reader has
        patients.write(Path(table))
    namespace, printed = {"__name__": "__main__"}, None
    for fence in fences(page.read_text()):
        where = f"{name_of(page)}, line {fence.line}"
        if fence.language in ("", "text"):
            if fence.follows and printed is not None:
                check_output(fence, printed, where)
            printed = None
        else:
            printed = execute(fence, namespace, where)


def execute(fence, namespace, where):
    """What the block prints, None if it does not run."""
    if fence.language == "toml":
        name = re.match(r"# (\S+\.toml)$", fence.text.splitlines()[0])
        if name:
            Path(name[1]).write_text(fence.text)
        return None
    if fence.reason:
        return None
    if fence.language == "sh":
        done = subprocess.run(["bash", "-e", "-c", fence.text], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{where}: {done.stdout}{done.stderr}"
        return done.stdout
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(fence.text, where, "exec"), namespace)
    return printed.getvalue()


def check_output(fence, printed, where):
    """Each line of the page, in its order; `...` stands for left-out lines."""
    rest = printed.splitlines()
    for line in fence.text.splitlines():
        if line.strip() in ("", "..."):
            continue
        found = [n for n, candidate in enumerate(rest) if same_output(line, candidate, bool(fence.varies))]
        assert found, f"{where}: not printed: {line}\nbut:\n{printed}"
        rest = rest[found[0] + 1 :]


NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:e[-+]?\d+)?")
SECONDS = re.compile(r"[-+]?\d*\.?\d+(?= ?(?:s|ms|seconds|minutes)\b)")


def same_output(expected, printed, varies=False):
    if masked(expected) != masked(printed):
        return False
    pairs = zip(NUMBER.findall(timeless(expected)), NUMBER.findall(timeless(printed)), strict=True)
    return all(agree(page, run, varies) for page, run in pairs)


def agree(page, run, varies):
    """Whole numbers are counts; what is below 1e-10 is rounding."""
    if not varies and re.fullmatch(r"[-+]?\d+", page) and re.fullmatch(r"[-+]?\d+", run):
        return page == run
    return math.isclose(float(page), float(run), rel_tol=0.5 if varies else 0.02, abs_tol=1e-10)


def timeless(line):
    return SECONDS.sub("#", line)


def masked(line):
    line = re.sub(r"[─━]+", "-", timeless(line))
    return " ".join(NUMBER.sub("#", line).split())


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
