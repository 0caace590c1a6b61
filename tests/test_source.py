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
