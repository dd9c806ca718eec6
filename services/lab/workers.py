"""Work spread over processes of this machine, handed back as soon as each piece is done."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from services.lab.errors import RunInvalid

Item = TypeVar("Item")
Result = TypeVar("Result")


def spread(work: Callable[[Item], Result], items: Sequence[Item], workers: int) -> Generator[Result, None, None]:
    """Do the work for each item, in any order; nothing is left running when the iterator is closed.

    Raises:
        RunInvalid: A process died.
    """
    if workers < 2 or len(items) < 2:
        yield from map(work, items)
        return
    before = multiprocessing.active_children()
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(items)), mp_context=context, initializer=_begin)
    try:
        for done in as_completed([pool.submit(work, item) for item in items]):
            yield done.result()
    except BrokenProcessPool:
        raise RunInvalid("process_died", "a process that simulates has died: was it killed, or memory short?") from None
    finally:
        for child in multiprocessing.active_children():
            if child not in before:
                child.terminate()
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Leave Ctrl-C to the parent, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
