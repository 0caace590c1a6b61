"""Docstrings as they are written here, plain text, turned into what Sphinx reads.

A docstring is a sentence, paragraphs, and lines `name: meaning` for arguments, `Returns:` and `Raises:`, whose
continuation lines are indented. Blocks that are indented as a whole are formulas. Nothing in it is markup, except that
`backticks` mark code.
"""

import dataclasses
import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any

HEADS = {"Returns": "Returns", "Raises": "Raises"}
ENTRY = re.compile(r"^([A-Za-z_]\w*(?:, [A-Za-z_]\w*)*): (.*)$")
CODE = re.compile(r"`([^`]+)`")
MARKUP = re.compile(r"([\\*|_`])")


def setup(app: Any) -> dict[str, bool]:
    """Let autodoc pass every docstring through here."""
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Rewrite the lines of one docstring in place; arguments are recognized by the names of the signature."""
    lines[:] = converted([*lines, "", *option_lines(obj)], argument_names(obj))


def argument_names(obj: Any) -> set[str]:
    """The names of the arguments of a callable, none for anything else."""
    try:
        return set(inspect.signature(obj).parameters)
    except (TypeError, ValueError):
        return set()


def option_lines(obj: Any) -> list[str]:
    """What the fields of a class of options mean, which each of them says itself."""
    fields = dataclasses.fields(obj) if inspect.isclass(obj) and dataclasses.is_dataclass(obj) else ()
    return [f"{field.name}: {field.metadata['meaning']}" for field in fields if "meaning" in field.metadata]


def converted(lines: Iterable[str], arguments: set[str]) -> list[str]:
    """The docstring as reStructuredText."""
    made: list[str] = []
    for block in blocks(lines):
        if all(line.startswith("    ") for line in block) and made:
            made += ["::", "", *block, ""]
        else:
            made += [*paragraph(block, arguments), ""]
    return made


def blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """The lines between empty ones."""
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []


def paragraph(block: list[str], arguments: set[str]) -> list[str]:
    """Sentences, and a list of arguments where lines begin with their names."""
    made: list[str] = []
    for line in entries(block, arguments):
        match = ENTRY.match(line)
        names = match[1].split(", ") if match else []
        if match and match[1] in HEADS:
            made += ["", f":{HEADS[match[1]]}: {inline(match[2])}"]
        elif match and arguments.issuperset(names):
            if not made or not made[-1].startswith("    * "):
                made += ["", ":Arguments:"]
            made.append(f"    * {', '.join(f'**{inline(name)}**' for name in names)}: {inline(match[2])}")
        else:
            if made and made[-1].lstrip().startswith((":", "* ")):
                made.append("")
            made.append(inline(line))
    return made


def entries(block: list[str], arguments: set[str]) -> Iterator[str]:
    """One line for each entry: continuation lines are joined, and `a: ...; b: ...` is split."""
    names = "|".join(map(re.escape, sorted(arguments, key=len, reverse=True)))
    several = re.compile(rf"[;.] (?=(?:{names})(?:, (?:{names}))*: )") if names else None
    for line in joined(block):
        match = ENTRY.match(line)
        if several and match and arguments.issuperset(match[1].split(", ")):
            yield from several.split(line)
        else:
            yield line


def joined(block: list[str]) -> list[str]:
    """Continuation lines belong to the line above them."""
    made: list[str] = []
    for line in block:
        if line.startswith("    ") and made:
            made[-1] += " " + line.strip()
        else:
            made.append(line)
    return made


def inline(text: str) -> str:
    """Plain words with their special characters escaped; code stays code, and public names become links."""
    parts = CODE.split(text)
    return "".join(code(part) if index % 2 else MARKUP.sub(r"\\\1", part) for index, part in enumerate(parts))


def code(text: str) -> str:
    """`fx.name` links to its entry in the reference; all else is literal."""
    if re.fullmatch(r"fx(\.\w+)+", text):
        return f":py:obj:`{text} <fedualex{text[2:]}>`"
    return f"``{text}``"
