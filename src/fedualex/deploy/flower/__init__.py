"""Flower 1.41 below the seam: the extra `fedualex[flower]`."""

from importlib.util import find_spec

if find_spec("flwr") is None:
    raise ModuleNotFoundError(
        "fedualex.deploy.flower needs Flower, which is not installed: pip install 'fedualex[flower]'", name="flwr"
    )
