"""The page: what is refused, and what is in the file; test_report_browser.py opens it."""

import copy
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from support.report_data import model_data, report_data

from fedualex.palette import MARKERS
from fedualex.report.page import _read, render
from fedualex.runtime.outputs import NONZERO


class Reader(HTMLParser):
    """The tags with their attributes, and the text of every script."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data


def embedded(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_page_is_one_file_that_loads_nothing():
    reader = Reader(render(report_data()))
    loads = {"src", "href", "action", "data", "poster", "srcset", "background"}
    for tag, attributes in reader.tags:
        assert tag not in {"link", "iframe", "object", "embed", "base"}
        assert not loads & attributes.keys(), (tag, attributes)
    assert len(reader.scripts) == 2
    assert set(re.findall(r"https?:[^\"' ]*", reader.scripts[1])) == {
        "http://www.w3.org/2000/svg"
    }  # a name, no address
    policy = next(a["content"] for tag, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy
    assert "default-src 'none'" in policy
    assert "http" not in policy


def test_page_is_small_and_begins_with_the_answer():
    data = report_data()
    page = render(data)
    assert len(page.encode()) < 2_000_000  # as large as the paper's: two games, seven methods, four outputs
    assert len(page) - len(json.dumps(data)) < 70_000  # all but the data
    body = page[page.index("<h1>") :]
    assert body.index(data["headline"]) < 200
    assert "This is" not in body[: body.index("<script")]
    small = render(data | {"small": "a small instance"})
    assert '<p class="banner" role="note">This is a small instance.</p>' in small[: small.index("<script")]


def test_page_holds_the_data_and_a_section_for_each_panel():
    data = report_data()
    page = render(data)
    assert embedded(page) == json.loads(json.dumps({**data, "nonzero": NONZERO}))
    names = [a["data-name"] for tag, a in Reader(page).tags if tag == "section" and a.get("class") == "panel"]
    assert names == ["l1-k10", "nuclear-k10"]


def test_a_panel_may_have_a_model():
    data = report_data()
    data["panels"] = [data["panels"][0] | {"model": model_data()}]
    assert embedded(render(data))["panels"][0]["model"] == model_data()


@pytest.mark.parametrize("text", ["</script><script>alert(1)</script>", "<!--<script>", '"&<b>$title</b>'])
def test_text_is_text_wherever_it_stands(text):
    data = report_data()
    data["title"] = data["headline"] = data["small"] = text
    data["panels"][0] |= {"title": text, "name": text}
    data["claims"][0]["claim"] = text
    page = render(data)
    reader = Reader(page)
    assert len(reader.scripts) == 2
    assert next(a for tag, a in reader.tags if a.get("class") == "panel")["data-name"] == text
    assert embedded(page)["claims"][0]["claim"] == text
    assert not any(tag == "b" for tag, _ in reader.tags)


def test_numbers_that_are_not_finite_become_null():
    data = report_data()
    data["panels"][0]["curves"][0]["gap"]["mean"][:2] = [float("nan"), float("inf")]
    assert embedded(render(data))["panels"][0]["curves"][0]["gap"]["mean"][:3] == [
        None,
        None,
        data["panels"][0]["curves"][0]["gap"]["mean"][2],
    ]


PATHS = [
    ("claims",),
    ("styles", "FeDualEx", "dark"),
    ("claims", 0, "readings", 1, "holds"),
    ("panels", 0, "answers"),
    ("panels", 1, "exact"),
    ("panels", 0, "exact", "how"),
    ("panels", 1, "curves", 3, "gap"),
    ("panels", 1, "curves", 3, "structure", "y", "std"),
    ("panels", 0, "table", 2, "gap_std"),
    ("panels", 0, "certificates", 0, "reason"),
    ("panels", 0, "solutions", 0, "blocks", 1, "kind"),
    ("repeat", "command"),
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: "-".join(map(str, path)))
def test_a_missing_key_is_named_with_its_place(path):
    data = report_data()
    inner: Any = data
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    where = "data" + "".join(f"[{key!r}]" for key in path[:-1])
    with pytest.raises(ValueError, match=re.escape(f"{where} lacks the key {path[-1]!r}; it has ")):
        render(data)


def changed(value: Any, *path: Any) -> dict[str, Any]:
    data = copy.deepcopy(report_data())
    inner: Any = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            changed("sparsity", "panels", 0, "structure"),
            "data['panels'][0]['structure'] must be 'density' or 'rank', got 'sparsity'",
        ),
        (changed("maybe", "claims", 0, "verdict"), "data['claims'][0]['verdict'] must be 'agrees' or"),
        (changed({}, "panels"), "data['panels'] must be a list, got {}"),
        (
            changed("small", "panels", 0, "table", 0, "gap"),
            "data['panels'][0]['table'][0]['gap'] must be int | float | None, got 'small'",
        ),
        (
            changed([1, 2], "panels", 0, "curves", 0, "seconds"),
            "data['panels'][0]['curves'][0]: seconds has 2 entries, but round has",
        ),
        (
            changed([], "panels", 1, "curves", 2, "structure", "y", "mean"),
            "data['panels'][1]['curves'][2]: y mean has 0 entries",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_that_does_not_fit_is_refused(data, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        render(data)


def test_the_page_can_draw_every_marker():
    script = _read("text.js")
    marks = script[script.index("const MARKS = {") : script.index("};")]
    assert set(re.findall(r'"(.)": "M', marks)) == set(MARKERS)
