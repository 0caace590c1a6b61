"""NVIDIA FLARE as an engine: start-up kits, trial processes, jobs, and the two roles that run inside it."""

import os
from importlib.util import find_spec

if find_spec("nvflare") is None:
    raise ImportError("the engine 'nvflare' needs NVIDIA FLARE 2.9: pip install 'fedualex[nvflare]'")

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its C library writes handshakes to the terminal; we raise in words
