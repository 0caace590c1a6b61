"""What docs/trust.md says who can learn names a test in every cell, and each of these tests is there."""

import re
from pathlib import Path

from support.liars import LIARS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "trust.md").read_text()
DEFINED = set(
    re.findall(r"^def (test_\w+)", "\n".join(p.read_text() for p in (ROOT / "tests").rglob("test_*.py")), re.M)
)


def test_every_test_that_the_page_names_is_there():
    named = set(re.findall(r"`(test_\w+)", PAGE))
    assert len(named) > 20
    assert named <= DEFINED, named - DEFINED


def test_every_cell_of_who_can_learn_what_names_what_shows_it():
    table = PAGE.partition("## Who can learn what")[2].partition("##")[0]
    rows = [line.strip("|\n ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 14
    liars = {liar.__name__ for liar in LIARS}
    for what, *cells in rows:
        assert len(cells) == 3, what
        for cell in cells:
            words = set(re.findall(r"`([\w.]+)", cell))
            shown = words & (DEFINED | liars) or "`..." in cell or "the same" in cell
            assert shown, f"{what}: {cell}"
