"""What counts as a block of code on a page."""

from support.pages import fences

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
