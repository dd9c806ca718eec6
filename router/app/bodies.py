"""What clients of a router send in bodies, as JSON."""

from __future__ import annotations

from json import JSONDecoder
from typing import Any

from router.app.replies import BadRequest
from router.protocol.http import MAX_KEY
from router.protocol.stream import is_amount

DEFAULT_SIZE = 1.0  # the mean; a router draws nothing at random for a job
_JOB_KEYS = {"size", "patience"}

_decode = JSONDecoder().decode


def read_json(body: bytes) -> Any:
    """The value in a body.

    Raises:
        BadRequest: It is no JSON, or not in UTF-8.
    """
    try:
        return _decode(body.decode())
    except (ValueError, RecursionError) as error:
        raise BadRequest(400, "json", f"the body is not valid JSON: {error}") from None


def read_job(body: bytes) -> tuple[float, float | None]:
    """The size and the patience of a job; those of an ordinary one if there is no body.

    Raises:
        BadRequest: It is no job.
    """
    return _job(read_json(body)) if body else (DEFAULT_SIZE, None)


def read_keyed_job(body: bytes, header: str | None) -> tuple[str | None, float, float | None]:
    """The key of a job, by which it is served at most once, its size and its patience.

    Args:
        body: The body.
        header: The key, if a header gives one.

    Raises:
        BadRequest: It is no job, or no key.
    """
    job = read_json(body) if body else {}
    key = job.pop("key", None) if type(job) is dict else None
    size, patience = _job(job)
    if key is None:
        key = header
    if key is None:
        return None, size, patience
    if header is not None and key != header:
        raise BadRequest(400, "job", f"key = {key!r:.80}, but Idempotency-Key is {header!r:.80}: give one of them")
    if type(key) is not str or not 0 < len(key) <= MAX_KEY or not key.isprintable() or not key.isascii():
        raise BadRequest(400, "job", f"key = {key!r:.80}: expected 1 to {MAX_KEY} printable characters of ASCII")
    return key, size, patience


def _job(job: Any) -> tuple[float, float | None]:
    if type(job) is not dict:
        raise BadRequest(400, "job", f'expected {{"size": …, "patience": …}} or no body, found {job!r:.80}')
    if not job.keys() <= _JOB_KEYS:
        unknown = min(job.keys() - _JOB_KEYS)
        raise BadRequest(
            400, "job", f"unknown key {unknown!r:.80}: a job has size and patience, in time units, and key"
        )
    size, patience = job.get("size", DEFAULT_SIZE), job.get("patience")
    if not is_amount(size):
        raise BadRequest(400, "job", f"size = {size!r:.80}: expected a number from 0, below 1e15")
    if patience is not None and not is_amount(patience):
        raise BadRequest(400, "job", f"patience = {patience!r:.80}: expected a number from 0, below 1e15, or null")
    return size, patience
