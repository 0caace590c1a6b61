"""What counts as a block of code on a page, and how many words the site has."""

from support.pages import ROOT, fences, pages, without_fences

PAGE = """
<!-- not executed: slow -->
```sh
make bench
```

```python
print(1)
```

```text
1
```

<!-- not executed: yours -->
```sh
fedualex fit TABLE.csv
```
"""


def test_every_block_is_found_with_its_own_reason():
    found = [(fence.language, fence.reason, fence.follows) for fence in fences(PAGE)]
    assert found == [
        ("sh", "slow", False),
        ("python", "", True),
        ("text", "", True),
        ("sh", "yours", True),
    ]


def count_words(text):
    """What has a letter and stands outside of blocks of code; bars of tables and operators of formulas are no words."""
    return sum(any(letter.isalpha() for letter in token) for token in without_fences(text).split())


def test_words_are_counted_outside_of_blocks():
    assert count_words("| one | `two` | 3 |\n\n```python\nnot(counted)\n```\n\nx + 1 = [three](four.md)\n") == 4


def test_the_site_stays_short():
    """One page has one purpose, and each fact stands on one page; measurements are in benchmarks/results."""
    counted = [page for page in pages() if "docs" in page.parts or page == ROOT / "README.md"]
    assert sum(count_words(page.read_text()) for page in counted) <= 50_000
