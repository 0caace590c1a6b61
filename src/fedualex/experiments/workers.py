"""Tasks on all cores: one process a core, because one simulation does not fill two."""

import functools
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

from ..problems import AbstractProblem
from . import protocol
from .plan import Experiment
from .protocol import Task
from .registry import build_problem

BLAS_THREADS = "OPENBLAS_NUM_THREADS"

Pool = Callable[[Experiment, Path, list[Task], Callable[[Task], None]], None]


@contextmanager
def pool() -> Iterator[Pool]:
    """A function that performs an experiment's tasks and reports each as it ends."""
    context = multiprocessing.get_context("spawn")
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None] * (os.cpu_count() or 1)
    queue: SimpleQueue[Any] = context.SimpleQueue()
    for core in cores:
        queue.put(core)
    # numpy's BLAS counts the cores when it is imported, before a worker has settled on one of them.
    chosen = BLAS_THREADS in os.environ
    os.environ.setdefault(BLAS_THREADS, "1")
    executor = ProcessPoolExecutor(len(cores), context, initializer=_settle, initargs=(queue,))

    def perform_all(experiment: Experiment, root: Path, tasks: list[Task], done: Callable[[Task], None]) -> None:
        missing = [task for task in tasks if not protocol.result_path(root, task).exists()]
        waiting = {executor.submit(_perform, experiment, root, task): task for task in missing}
        for task in tasks:
            if task not in missing:
                done(task)
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                task = waiting.pop(future)
                future.result()
                done(task)

    try:
        yield perform_all
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        if not chosen:
            del os.environ[BLAS_THREADS]


def _settle(queue: "SimpleQueue[Any]") -> None:
    """Give this worker a core of its own, before jax counts them, and end it when its parent is gone or at Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    core = queue.get()
    if core is not None:
        os.sched_setaffinity(0, {core})

    def end_with_parent() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


@functools.lru_cache(maxsize=1)
def _problem(text: str) -> AbstractProblem:
    return build_problem(json.loads(text), Path())


def _perform(experiment: Experiment, root: Path, task: Task) -> None:
    protocol.perform(experiment, _problem(json.dumps(experiment.settings["problem"])), root, task)
