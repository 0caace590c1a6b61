"""`python -m fedualex.deploy.flower.worker NODE PORT SECRET`: the process that works for a site's SuperNode.

Flower would start a Python process for every message, and run in it whatever app the server's side submitted. This
one process takes the place of both: it stays warm, and it runs the installed `fedualex.deploy.flower.app` and nothing
else. It speaks Flower 1.41's runtime protocol, which is not a public interface: hence the narrow pin of the extra.
"""

import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

import httpx
from flwr.app import Error, Message
from flwr.common.constant import SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest, SendTaskHeartbeatRequest
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from .app import client as client_app

POLL_SECONDS = 0.1
HEARTBEAT_SECONDS = 10.0
ACQUIRE = "/flwr.proto.Runtime/AcquireTask"
RAISED = 2
"""Flower's code of an app that raised."""


def main(node: int, port: int, secret: bytes) -> None:
    """Take tasks from the SuperNode with process id `node` until it is gone."""
    end_with(node)
    address = f"127.0.0.1:{port}"
    while (token := acquire(node, address, None, secret, "flwr-clientapp")) is not None:
        # A thread each: the last request of a stopped run may never arrive in full, and Flower waits two hours for it.
        threading.Thread(target=_perform, args=(address, token), daemon=True).start()


def acquire(owner: int, address: str, authority: bytes | None, secret: bytes, kind: str) -> str | None:
    """The token of the next task of a kind; None when the process that owns the tasks is gone."""
    signed = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods=frozenset({ACQUIRE}))
    tasks = RuntimeHttpClient.from_server_address(address, authority is None, authority, [version("SuperExec"), signed])
    try:
        while _lives(owner):
            try:
                if token := tasks.AcquireTask(AcquireTaskRequest(supported_task_types=[kind])).token:
                    return token
                time.sleep(POLL_SECONDS)
            except httpx.HTTPError:  # not up yet, or going down
                time.sleep(1)
        return None
    finally:
        tasks.close()


def _perform(address: str, token: str) -> None:
    """One message in, one message out; what goes wrong with it is its sender's to know, not our end."""
    known = RuntimeTokenHttpInterceptor(token)
    retry = make_simple_http_retry_invoker()
    runtime = RuntimeHttpClient.from_server_address(
        address, True, None, [version("flwr-clientapp"), known], retry_invoker=retry
    )
    done = threading.Event()
    threading.Thread(target=_heartbeat, args=(runtime, done), daemon=True).start()
    context, detail = None, ""
    try:
        message, context, _, _ = pull_task_input(runtime)
        try:
            reply = client_app(message=message, context=context)
        except Exception as error:  # a site's own code; its text may quote data, and stays in the site's log
            traceback.print_exc()
            detail = type(error).__name__
            reply = Message(Error(RAISED, detail), reply_to=message)
        push_message(runtime, reply, context)
    except Exception as error:  # the run was stopped, or the SuperNode is gone
        detail = f"{type(error).__name__}: {error}"
        print(f"task lost: {detail}", flush=True)
    finally:
        done.set()
        retry.max_tries = 1  # the SuperNode may be gone for good
        push_task_output(runtime, context, SubStatus.FAILED if detail else SubStatus.COMPLETED, detail)
        runtime.close()


def _heartbeat(runtime: RuntimeHttpClient, done: threading.Event) -> None:
    """Say that the task is still worked on: without it the SuperNode gives it up after a while."""
    while not done.wait(HEARTBEAT_SECONDS):
        try:
            runtime.SendTaskHeartbeat(SendTaskHeartbeatRequest())
        except httpx.HTTPError:
            continue


def end_with(owner: int) -> None:
    """End this process when its owner is gone: Flower's calls would try to reach it for ever."""

    def watch() -> None:
        while _lives(owner):
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def version(component: str) -> RuntimeVersionHttpInterceptor:
    """Flower's parts tell each other which version they are."""
    return RuntimeVersionHttpInterceptor(component_name=component)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]).read_bytes())
