"""Blocks of code on pages, executed; what they print, compared with what the page says."""

import contextlib
import io
import math
import os
import re
import subprocess
import sys
from pathlib import Path

from support import patients
from support.pages import fences


def run_page(page):
    """Each block of output on a page with what the block of code before it printed, while the blocks run in turn.

    In the folder of now, which has the tables of a reader.
    """
    for table in ("patients.csv", "new.csv", "other.csv"):
        patients.write(Path(table))
    namespace, printed = {"__name__": "__main__"}, None
    for fence in fences(page.read_text()):
        where = f"{page.name}, line {fence.line}"
        if fence.language in ("", "text"):
            if fence.follows and printed is not None:
                yield fence, printed, where
            printed = None
        else:
            printed = execute(fence, namespace, where)


def surroundings():
    """The variables of the environment in which blocks run."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"MPLBACKEND": "agg", "COLUMNS": "120", "PATH": path}


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
