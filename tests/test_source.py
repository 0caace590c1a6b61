"""The limits that keep files and functions readable."""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src" / "fedualex").rglob("*.py"))


def functions(path):
    tree = ast.parse(path.read_text())
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def lines_of_code(function):
    """The lines of a function without its docstring: a formula may take as much room as it needs."""
    whole = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is None:
        return whole
    words = function.body[0]
    return whole - (words.end_lineno - words.lineno + 1)


def test_no_file_is_too_long():
    """Files are cut by idea, not by length; one of more than 600 lines holds more than one."""
    lengths = {str(path): len(path.read_text().splitlines()) for path in SOURCES}
    assert {path: length for path, length in lengths.items() if length > 600} == {}


def test_no_function_is_too_long_or_takes_too_much():
    """Forty lines of code; nine parameters by position, and fourteen with those that are named."""
    long, wide = [], []
    for path in SOURCES:
        for function in functions(path):
            where = f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
            placed = len(function.args.posonlyargs + function.args.args)
            long += [where] if lines_of_code(function) > 40 else []
            wide += [where] if placed > 9 or placed + len(function.args.kwonlyargs) > 14 else []
    assert (long, wide) == ([], [])


def test_any_stands_only_where_a_library_has_no_type():
    """At most twelve in 1,000 lines, and two names that mean it: a tree of arrays, and a field that is given a number."""
    used, lines, named = 0, 0, set()
    for path in SOURCES:
        text = path.read_text()
        nodes = list(ast.walk(ast.parse(text)))
        used += sum(isinstance(node, ast.Name) and node.id == "Any" for node in nodes)
        lines += len(text.splitlines())
        plain = [node for node in nodes if isinstance(node, ast.Assign) and getattr(node.value, "id", "") == "Any"]
        named |= {
            target.id for node in plain for target in node.targets if path.name not in ("accepted.py", "arrays.py")
        }
    assert (used / lines <= 0.012, named) == (True, {"Tree", "StepSize"})


IRREGULAR = """
    begun bent borne bought brought built caught chosen done drawn driven fallen felt forgotten found given gone grown
    heard held hidden kept laid led lent lost made meant met paid said seen sent shown spent spoken stood sunk taken
    taught thought thrown told torn understood won worn written
"""
NO_PARTICIPLES = {"exceed", "feed", "need", "proceed", "seed", "speed", "succeed"}
NO_NOUNS = "above anywhere as at away by down for from in of on out over per to up with x y z"
"""After a participle these leave a name without a noun."""
ALLOWED = {
    # Names that users see: of the package, or of what they extend.
    "added", "bundled", "calibrated", "clipped", "constrained", "encoded", "held_out", "held_out_of", "reweighted",
    "sampled", "scaled", "settled", "stopped", "surveyed", "unlimited", "unseen", "weighed",
    # Names within public classes, and a decorator that reads as a declaration.
    "added_up", "asked_y", "bent", "built", "built_from", "told",
}  # fmt: skip
"""Known, beside these, is a noun: what all sites' summaries add up to."""


def is_participle(word):
    regular = word.endswith("ed") and word not in NO_PARTICIPLES
    return regular or not {word, word.removeprefix("un")}.isdisjoint(IRREGULAR.split())


def is_bare_participle(name):
    """`weighed`, `sent_above` and `not_reached`, but neither `held_out_losses` nor `find_marked`."""
    first, *others = name.strip("_").removeprefix("not_").lower().split("_")
    return is_participle(first) and all(is_participle(word) or word in NO_NOUNS.split() for word in others)


def test_no_function_is_named_by_a_participle():
    """A function is a verb, or a noun for what it returns."""
    for name, bare in {
        "weighed": 1,
        "_sent_above": 1,
        "not_reached": 1,
        "held_out_losses": 0,
        "find_marked": 0,
    }.items():
        assert is_bare_participle(name) == bare
    named = {function.name for path in SOURCES for function in functions(path) if is_bare_participle(function.name)}
    assert (named - ALLOWED, ALLOWED - named) == (set(), set())


def test_no_variable_is_named_by_having_been_found():
    """A name says what it is: a survey, a solution, a match."""
    for path in SOURCES:
        nodes = [node for function in functions(path) for node in ast.walk(function)]
        variables = {node.id for node in nodes if isinstance(node, ast.Name)}
        assert "found" not in variables | {node.arg for node in nodes if isinstance(node, ast.arg)}, path
