"""Processes that Ctrl-C ends, whoever started the tests."""

import signal
import subprocess


def start_interruptible(command, **options):
    """Start a process that heeds Ctrl-C, also from tests that ignore it.

    What a shell starts in the background ignores SIGINT, and so would its children. A handler of Python is not inherited: the
    child has the default.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(command, **options)
    finally:
        signal.signal(signal.SIGINT, before)
