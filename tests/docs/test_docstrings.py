"""The reference has every public name, and the docstring of each mentions every argument."""

import ast
import dataclasses
import enum
import importlib
import inspect
import itertools
import re
import textwrap

import pytest
from support.pages import ROOT

import fedualex as fx

ROOMS = ("algorithms", "data", "deploy", "estimators", "models", "problems", "reference", "testing", "theory")


def listed():
    """The names that the pages of the reference ask autodoc for."""
    text = "\n".join(page.read_text() for page in (ROOT / "docs/reference").glob("*.md"))
    return set(re.findall(r"^\.\. auto\w+:: fedualex\.([\w.]+)$", text, flags=re.MULTILINE))


def test_every_name_of_the_package_is_in_the_reference():
    assert set(fx.__all__) - set(ROOMS) - listed() == set()


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_of_a_room_is_in_the_reference(room):
    names = importlib.import_module(f"fedualex.{room}").__all__
    missing = {name for name in names if f"{room}.{name}" not in listed()} - set(fx.__all__)
    assert missing == set()


def public():
    """All public callables by the name that users write."""
    found = {name: getattr(fx, name) for name in fx.__all__ if name not in ROOMS}
    for room in ROOMS:
        module = importlib.import_module(f"fedualex.{room}")
        found |= {f"{room}.{name}": getattr(module, name) for name in module.__all__ if name not in fx.__all__}
    takes = {name: thing for name, thing in found.items() if inspect.isfunction(thing) or inspect.isclass(thing)}
    others = (enum.Enum, Exception)  # whose arguments are those of Python
    return {name: thing for name, thing in takes.items() if not (inspect.isclass(thing) and issubclass(thing, others))}


def explained(thing):
    """The docstring; of a class also those of its fields and of the classes above it."""
    if inspect.isfunction(thing):
        return thing.__doc__
    classes = [above for above in thing.__mro__ if above.__module__.startswith("fedualex")]
    return "\n".join([above.__doc__ or "" for above in classes] + [described_fields(above) for above in classes])


def described_fields(cls):
    """The names of fields that a docstring follows, or that say themselves what they mean."""
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    said = [field.name for field in fields if "meaning" in field.metadata]
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body
    followed = [
        field.target.id
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    ]
    return " ".join(said + followed)


@pytest.mark.parametrize("name", public())
def test_a_docstring_mentions_every_argument(name):
    thing = public()[name]
    words = set(re.findall(r"\w+", explained(thing)))
    takes = [argument for argument in inspect.signature(thing).parameters if argument not in ("args", "kwargs")]
    assert [argument for argument in takes if argument not in words] == []
