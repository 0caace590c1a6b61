"""The pages of the documentation as text: their headings, links and blocks of code."""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pages():
    """README, the pages beside it, and everything in docs/ that is not built from something else."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(page for page in found if "_build" not in page.parts)


def name_of(page):
    return str(page.relative_to(ROOT))


def without_code(text):
    """Text without fences and code spans, in which brackets would look like links."""
    return re.sub(r"`[^`\n]*`", "", without_fences(text))


def anchors(text):
    """The names that headings can be linked by."""
    headings = re.findall(r"^#+ (.*)$", without_fences(text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def without_fences(text):
    return re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)


def links(text):
    """The targets of links and pictures that are no addresses."""
    targets = re.findall(r"\]\(([^)\s]+)\)", without_code(text))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


@dataclass(frozen=True)
class Fence:
    """A block of code of a page."""

    language: str
    text: str
    line: int
    reason: str
    """Why it is not executed; empty if it is."""
    varies: str
    """Why its numbers are not compared with what is printed; empty if they are."""
    follows: bool
    """Whether nothing but empty lines stands between it and the block before it."""


def fences(text):
    """The blocks of a page in their order, but those that are directives of the site."""
    found, end = [], None
    for match in FENCE.finditer(text):
        between = "" if end is None else text[end : match.start()]
        end = match.end()
        if not match["language"].startswith("{"):
            line = text[: match.start("open")].count("\n") + 1
            block = textwrap.dedent(match["text"])
            reason, varies = match["reason"] or "", match["varies"] or ""
            found.append(Fence(match["language"], block, line, reason, varies, bool(found) and not between.strip()))
    return found


FENCE = re.compile(
    r"^(?:<!-- (?:not executed: (?P<reason>[^\n]+)|numbers vary: (?P<varies>[^\n]+)) -->\n)?"
    r"(?P<open>(?P<indent> *)```)(?P<language>\S*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$",
    flags=re.DOTALL | re.MULTILINE,
)
