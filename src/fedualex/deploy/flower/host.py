"""`python -m fedualex.deploy.flower.host SUPERLINK FOLDER`: the process in which the round loop of one run lives.

The counterpart of `worker` at the server: only a run that this deployment submitted is taken, and what runs is the
installed `fedualex.deploy.flower.app`, not what a message brought.
"""

import json
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

import httpx
from flwr.common.constant import SubStatus
from flwr.common.serde import context_from_proto, run_from_proto
from flwr.proto.runtime_pb2 import PullTaskInputRequest, SendTaskHeartbeatRequest
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid.http_grid import HttpGrid
from flwr.supernode.runtime.run_clientapp import push_task_output

from .app import server as server_app
from .layout import SUBMITTED, WORKER_KEY, port, stop_file
from .worker import HEARTBEAT_SECONDS, acquire, end_with, version

CLAIM_SECONDS = 60.0


def main(superlink: int, folder: Path) -> None:
    """Take one run from the SuperLink with process id `superlink`, and end with it."""
    signal.signal(signal.SIGTERM, _leave)
    end_with(superlink)
    home = folder / "server"
    address, authority = f"127.0.0.1:{port(folder)}", (home / "ca.crt").read_bytes()
    secret = (home / WORKER_KEY).read_bytes()
    token = acquire(superlink, address, authority, secret, "flwr-serverapp")
    if token is None:
        return
    known, retry = RuntimeTokenHttpInterceptor(token), make_simple_http_retry_invoker()
    runtime = RuntimeHttpClient.from_server_address(
        address, False, authority, [version("flwr-serverapp"), known], retry_invoker=retry
    )
    done = threading.Event()
    grid = HttpGrid(address, root_certificates=authority, token=token)
    detail = ""
    try:
        given = runtime.PullTaskInput(PullTaskInputRequest())
        stop = stop_file(home, str(given.run.run_id))
        threading.Thread(target=_heartbeat, args=(runtime, done, stop), daemon=True).start()
        TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
        TaskIdentity.node_id = given.context.node_id
        _require_ours(home, given.run.run_id)
        grid.set_run(run_from_proto(given.run))
        server_app(grid=grid, context=context_from_proto(given.context))
    except (Exception, SystemExit) as error:  # the app has written down its own; Flower is told as well
        detail = f"{type(error).__name__}: {error}"
        print(f"run failed: {detail}", flush=True)
    finally:
        done.set()
        grid.close()
        retry.max_tries = 1  # the SuperLink may be gone for good
        push_task_output(runtime, None, SubStatus.FAILED if detail else SubStatus.COMPLETED, detail)
        runtime.close()


def _leave(number: int, frame: object) -> NoReturn:
    """A polite end lets the app write down how the run ended."""
    raise SystemExit("ended by a signal, or because the SuperLink is gone")


def _require_ours(home: Path, run: int) -> None:
    """Whoever reaches the port can ask for a run; only one that was noted down here is done."""
    deadline = time.monotonic() + CLAIM_SECONDS  # the note comes a moment after Flower has taken the run
    file = home / SUBMITTED
    while not (file.exists() and json.loads(file.read_text())["run"] == str(run)):
        if time.monotonic() > deadline:
            raise PermissionError(f"run {run} was not submitted by this deployment")
        time.sleep(0.2)


def _heartbeat(runtime: RuntimeHttpClient, done: threading.Event, stop: Path) -> None:
    """Say that the run goes on; if Flower was told to stop it, pass that on to the round loop."""
    while not done.wait(HEARTBEAT_SECONDS):
        try:
            if not runtime.SendTaskHeartbeat(SendTaskHeartbeatRequest()).success:
                stop.touch()
        except httpx.HTTPError:
            continue


def _write_log() -> None:
    """What the library says of the run goes to this process's error stream, which is its log."""
    logging.getLogger("fedualex").addHandler(logging.StreamHandler())
    logging.getLogger("fedualex").setLevel(logging.INFO)


if __name__ == "__main__":
    _write_log()
    main(int(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.flush()
    os._exit(0)  # a thread of Flower's may still wait for a reply that never comes
