"""Every block of code in README and docs/ is executed, or says why not, or is output.

The blocks of a page run in their order, in one folder: `python` in one namespace, `sh` in bash, and `toml` is read, and
kept under the name that its first line is a comment of. A block without a language, or `text`, is output or a formula:
right after a block that ran, each of its lines must have been printed, but for the numbers in it.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support import patients
from support.pages import ROOT, fences, name_of, pages

LANGUAGES = {"python", "sh", "toml", "text", ""}
COMMAND = re.compile(r"^(make|fedualex|pip|python|pytest|\.venv/bin/\w+|import \w+|from \w+ import) ?")
ELSEWHERE = {"docs/extending.md": "test_extending.py"}
"""Pages whose blocks another file of tests runs, each in a namespace of its own."""


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
    if name_of(page) in ELSEWHERE:
        assert (Path(__file__).parent / ELSEWHERE[name_of(page)]).exists()
        return
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for table in ("patients.csv", "new.csv"):  # what a reader has
        patients.write(Path(table))
    namespace, printed = {"__name__": "__main__"}, None
    for fence in fences(page.read_text()):
        where = f"{name_of(page)}, line {fence.line}"
        if fence.language in ("", "text"):
            if fence.follows and printed is not None:
                check_output(fence.text, printed, where)
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


def check_output(expected, printed, where):
    """Each line of the page, in its order; numbers differ between machines, and `...` stands for left-out lines."""
    rest = [masked(line) for line in printed.splitlines()]
    for line in map(masked, expected.splitlines()):
        if line in ("", "..."):
            continue
        assert line in rest, f"{where}: not printed: {line}\nbut:\n{printed}"
        rest = rest[rest.index(line) + 1 :]


def masked(line):
    line = re.sub(r"[─━]+", "-", line)
    return " ".join(re.sub(r"[-+]?\d*\.?\d+(e[-+]?\d+)?", "#", line).split())


def test_pages_that_run_elsewhere_exist():
    assert all((ROOT / page).exists() for page in ELSEWHERE)
