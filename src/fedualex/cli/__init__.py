"""The command line. Commands import what they need when they run, so that `--help` does not wait for jax."""

import sys

try:
    from .group import main
except KeyboardInterrupt:  # there is no command yet that could end in good order
    sys.exit(130)

__all__ = ["main"]
