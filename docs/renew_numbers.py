"""Write the numbers that blocks of code print now into the pages that show them: `make docs-numbers`.

    python docs/renew_numbers.py [PAGE...]

A line of output is renewed if a line with the same words, in the same order, is printed; what has no such line is told,
for somebody has to look at it. Seconds stay what they
were. tests/docs/test_blocks.py compares pages with what is printed, and allows what differs from machine to machine.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.blocks import masked, run_page, surroundings, timeless  # noqa: E402
from support.pages import pages  # noqa: E402


def renew(page: Path) -> list[str]:
    """Renew the numbers of a page; the lines that are not printed any more, each with where it is."""
    lines, lost = page.read_text().splitlines(), list[str]()
    for fence, printed, _ in _until_it_fails(page, lost):
        rest = printed.splitlines()
        for number, line in enumerate(fence.text.splitlines(), fence.line):  # the fence itself is the line before
            if line.strip() in ("", "..."):
                continue
            same = next((n for n, candidate in enumerate(rest) if masked(candidate) == masked(line)), None)
            if same is None:
                lost.append(f"{page}:{number + 1}: {line}")
                continue
            if timeless(line).split() != timeless(rest[same]).split():
                before = lines[number]
                lines[number] = before[: len(before) - len(before.lstrip())] + rest[same].strip()
            rest = rest[same + 1 :]
    page.write_text("\n".join(lines) + "\n")
    return lost


def _until_it_fails(page: Path, lost: list[str]) -> Iterator[Any]:
    """What `run_page` gives; a block that fails is told, and what comes after it stays as it was."""
    try:
        yield from run_page(page)
    except Exception as error:  # whatever a block raises
        lost.append(f"{page}: a block fails: {error!r}")


def main(*names: str) -> int:
    """All pages, or these; the exit code is 1 if a line has to be looked at."""
    os.environ |= surroundings()
    lost: list[str] = []
    for page in [ROOT / name for name in names] or pages():
        print(page.relative_to(ROOT), flush=True)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            lost += renew(page)
    print("\n".join(["not printed any more:", *lost] if lost else ["every line of output is printed"]))
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
