"""What travels between server and sites: plain tables of numpy arrays and numbers."""

from typing import Any

import numpy as np

from ..engine import Arrays, Reply, Request

PLAIN_KINDS = "biufc"
"""Booleans, integers, floats and complex numbers: nothing that needs pickle, nothing that loses its type on the way."""


def plain(arrays: Any, where: str) -> Arrays:
    """Named numpy arrays of plain numbers, or one sentence about what is not."""
    if not isinstance(arrays, dict) or not all(isinstance(name, str) for name in arrays):
        raise TypeError(f"{where} must be a table of named arrays, not {type(arrays).__name__}")
    return {name: _plain_array(name, array, where) for name, array in arrays.items()}


def pack_request(request: Request) -> dict[str, Any]:
    """A request as the engine carries it."""
    arrays = plain(request.arrays, "the request")
    return {"task": request.task, "round": int(request.round), "run_id": request.run_id, "arrays": arrays}


def unpack_request(message: dict[str, Any]) -> Request:
    """The request that a site was sent."""
    arrays = plain(message["arrays"], "the request")
    return Request(message["task"], int(message["round"]), str(message["run_id"]), arrays)


def pack_answer(request: Request, arrays: Arrays, metrics: dict[str, float]) -> dict[str, Any]:
    """A site's answer, marked with the round and the run that it belongs to."""
    return _marked(request) | {
        "arrays": plain(arrays, "the answer"),
        "metrics": {str(name): float(value) for name, value in metrics.items()},
    }


def pack_failure(request: Request, error: str) -> dict[str, Any]:
    """A site's failure, marked in the same way."""
    return _marked(request) | {"error": error}


def unpack_reply(site: str, message: Any, request: Request) -> Reply:
    """What a site sent back; anything malformed becomes an error, since sites are not trusted."""
    try:
        mark = (site, int(message["round"]), str(message["run_id"]))
        if "error" in message:
            return Reply(*mark, error=str(message["error"]))
        metrics = {str(name): float(value) for name, value in message["metrics"].items()}
        return Reply(*mark, arrays=plain(message["arrays"], "the answer"), metrics=metrics)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        return Reply(site, request.round, request.run_id, error=f"malformed answer: {error}")


def _marked(request: Request) -> dict[str, Any]:
    return {"round": request.round, "run_id": request.run_id}


def _plain_array(name: str, array: Any, where: str) -> Any:
    found = np.ascontiguousarray(array).reshape(np.shape(array))  # contiguous, and 0-d stays 0-d
    if found.dtype.kind not in PLAIN_KINDS:
        raise TypeError(f"{where} holds {name!r} of dtype {found.dtype.str!r}; only plain numbers travel")
    return found
