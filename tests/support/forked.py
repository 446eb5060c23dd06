"""Tests of failing allocations. Each runs in a process of its own.

An injected failure hits whichever thread allocates next. In a worker of pytest-xdist that may be the thread that reads
the commands, which would end the run. A forked process has only the thread of the test.
"""

from __future__ import annotations

import functools
import os
import traceback
import warnings
from collections.abc import Callable

from . import needs


def forked(test: Callable[..., None]) -> Callable[..., None]:
    """Return a test that runs in a forked process, and is skipped where allocations cannot be made to fail."""

    @needs.FAILING_ALLOCATIONS
    @functools.wraps(test)
    def run(*args: object, **kwargs: object) -> None:
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns: the test runner has other threads
            child = os.fork()
        if not child:
            status = 1
            try:
                test(*args, **kwargs)
                status = 0
            except BaseException:
                os.write(writer, traceback.format_exc().encode()[-60_000:])
            finally:
                os._exit(status)
        os.close(writer)
        with open(reader, encoding="utf-8", errors="replace") as pipe:
            report = pipe.read()
        _, code = os.waitpid(child, 0)
        assert code == 0, report or f"the process ended with {code}"

    return run
