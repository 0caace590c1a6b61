"""What travels between server and sites: a few words and numbers, and arrays in numpy's own format."""

from typing import Any

from ..engine import Arrays, Reply, Request
from ..wire import from_bytes, plain, to_bytes


def table(arrays: Any, where: str) -> Arrays:
    """Named numpy arrays of plain numbers, or one sentence about what is not."""
    if not isinstance(arrays, dict) or not all(isinstance(name, str) for name in arrays):
        raise TypeError(f"{where} must be a table of named arrays, not {type(arrays).__name__}")
    return {name: plain(name, array, where) for name, array in arrays.items()}


def pack_request(request: Request) -> dict[str, Any]:
    """A request as the engine carries it."""
    words = {"task": request.task, "round": int(request.round), "run_id": request.run_id}
    return words | {"arrays": to_bytes(table(request.arrays, "the request"))}


def unpack_request(message: dict[str, Any]) -> Request:
    """The request that a site was sent."""
    arrays = table(from_bytes(message["arrays"]), "the request")
    return Request(message["task"], int(message["round"]), str(message["run_id"]), arrays)


def pack_answer(request: Request, arrays: Arrays) -> dict[str, Any]:
    """A site's answer, marked with the round and the run that it belongs to."""
    return _marked(request) | {"arrays": to_bytes(table(arrays, "the answer"))}


def pack_failure(request: Request, error: str) -> dict[str, Any]:
    """A site's failure, marked in the same way."""
    return _marked(request) | {"error": error}


def unpack_reply(site: str, message: Any, request: Request) -> Reply:
    """What a site sent back; anything malformed becomes an error, since sites are not trusted."""
    try:
        mark = (site, int(message["round"]), str(message["run_id"]))
        if "error" in message:
            return Reply(*mark, error=_line(message["error"]))
        return Reply(*mark, arrays=table(from_bytes(message["arrays"]), "the answer"))
    except Exception as error:  # what comes from outside can be wrong in any way
        return Reply(site, request.round, request.run_id, error=f"malformed answer: {_line(error)}")


def _line(words: Any) -> str:
    """On one line and not too long, whatever a site sends: it goes to the log."""
    return " ".join(str(words).split())[:200]


def _marked(request: Request) -> dict[str, Any]:
    return {"round": request.round, "run_id": request.run_id}
