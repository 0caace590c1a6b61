"""Every link between pages, to files and to headings leads somewhere."""

import re

import pytest
from support.pages import ROOT, anchors, links, name_of, pages

README = ROOT / "README.md"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page):
    for target in links(page.read_text()):
        file, _, anchor = target.partition("#")
        aim = (page.parent / file).resolve() if file else page
        assert aim.exists(), f"{target}: no such file"
        if anchor:
            assert anchor in anchors(aim.read_text()), f"{target}: no such heading"


def test_every_page_of_the_site_is_in_its_contents():
    """Pages are reached from index.md, from a catalogue or from the reference's own list."""
    lists = [page for page in pages() if "{toctree}" in page.read_text()]
    named = {
        (page.parent / line.strip()).with_suffix(".md").resolve()
        for page in lists
        for line in page.read_text().splitlines()
    }
    missing = [name_of(page) for page in pages() if "docs" in page.parts and page not in named]
    assert [page for page in missing if page.startswith("docs/")] == ["docs/index.md"]


def test_no_two_pages_of_the_site_have_the_same_title():
    """The titles are the entries of the sidebar; three pages take theirs from a file outside of docs/."""
    titles = [re.findall(r"^# (.*)$", page.read_text(), flags=re.MULTILINE)[:1] for page in pages() if page != README]
    found = [title for title, *_ in filter(None, titles)]
    assert sorted(set(found)) == sorted(found)
