"""Run folders changed by hand, and the hash over their files made anew as somebody would who knows of it."""

import json

from fedualex.experiments import seal


def alter(path, name, change):
    """Change the data of a JSON file in place, and seal the folder again."""
    data = json.loads((path / name).read_text())
    change(data)
    (path / name).write_text(json.dumps(data))
    reseal(path)


def reseal(path):
    """Make the status say that all files are as they should be."""
    status = json.loads((path / "status.json").read_text())
    own = {key: value for key, value in status.items() if key not in ("files", "sha256")}
    (path / "status.json").write_text(json.dumps(seal.sealed(path, own)))
