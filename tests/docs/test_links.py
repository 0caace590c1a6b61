"""Every link between pages, to files and to headings leads somewhere."""

import pytest
from support.pages import anchors, links, name_of, pages


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
