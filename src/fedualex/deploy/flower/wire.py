"""Requests and replies as Flower's records: named arrays of plain numbers and a few words, no pickle."""

from collections.abc import Mapping
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, ConfigRecordValues, RecordDict

from ..engine import Arrays, Reply, Request
from ..wire import one_reader, plain

TASKS = ("round", "survey")


def pack_arrays(arrays: Mapping[str, Any]) -> ArrayRecord:
    """Arrays as they travel; anything else than plain numbers is refused before it leaves."""
    return ArrayRecord({name: Array(plain(name, value)) for name, value in arrays.items()})


def unpack_arrays(record: ArrayRecord) -> Arrays:
    """Arrays as they arrived; what the sender calls plain numbers is checked again."""
    with one_reader:
        return {name: plain(name, array.numpy()) for name, array in record.items()}


def pack_request(request: Request, arrays: ArrayRecord, ticket: str) -> RecordDict:
    """A request to one site. Its ticket is known to that site alone, and only a reply that repeats it is taken."""
    words = ConfigRecord({"task": request.task, **_identity(request, ticket)})
    return RecordDict({"arrays": arrays, "request": words})


def unpack_request(content: RecordDict) -> tuple[Request, str]:
    """What a site is asked for, and the ticket of its reply."""
    words = content.config_records["request"]
    task = words["task"]
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(map(repr, TASKS))}, got {task!r}")
    arrays = unpack_arrays(content.array_records["arrays"])
    request = Request(task, int(words["round"]), str(words["run_id"]), arrays)  # type: ignore[arg-type]
    return request, str(words["ticket"])


def pack_reply(request: Request, ticket: str, arrays: Mapping[str, Any]) -> RecordDict:
    """A site's answer, with round, run and ticket of the request it answers."""
    return RecordDict({"arrays": pack_arrays(arrays), "reply": ConfigRecord(_identity(request, ticket))})


def unpack_reply(content: RecordDict, site: str, request: Request, ticket: str) -> Reply:
    """A site's answer, or why it is not one."""
    try:
        words = content.config_records["reply"]
        echo = (words["round"], words["run_id"], words["ticket"])
        arrays = unpack_arrays(content.array_records["arrays"])
    except Exception as error:  # what comes from outside can be wrong in any way
        return failed(site, request, f"malformed reply: {type(error).__name__}: {error}")
    if echo != (request.round, request.run_id, ticket):
        return failed(site, request, f"reply to another request: round {echo[0]!r} of run {echo[1]!r}")
    return Reply(site, request.round, request.run_id, arrays)


def failed(site: str, request: Request, error: str) -> Reply:
    """No answer of a site, and why."""
    return Reply(site, request.round, request.run_id, error=error)


def _identity(request: Request, ticket: str) -> dict[str, ConfigRecordValues]:
    return {"round": request.round, "run_id": request.run_id, "ticket": ticket}
