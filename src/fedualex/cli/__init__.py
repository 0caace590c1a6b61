"""The command line. Commands import what they need when they run, so that `--help` does not wait for jax."""

import os
import sys

# Surveys have threads of their own. Those of BLAS beside them, or beside other processes, wait in loops for each other,
# which has taken ten times as long as the work. numpy reads this when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

try:
    from .group import main
except KeyboardInterrupt:  # there is no command yet that could end in good order
    sys.exit(130)

__all__ = ["main"]
