"""The Python on the README's first screen runs as it stands."""

import re
from pathlib import Path


def test_readme_python_runs(capsys):
    text = (Path(__file__).parents[2] / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "and not found, which is no proof" in shown
    assert "OPTIMAL, TOLERANCE: certified gap <= " in shown
