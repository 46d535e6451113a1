"""Work in a process of its own: answers, errors, the end of either side."""

from __future__ import annotations

import os
import time
from functools import partial

import pytest

from ccltui.tui.state.query_kinds import run_in_process


def never() -> bool:
    return False


def test_the_answer_and_the_error_come_back() -> None:
    assert run_in_process(partial(divmod, 7, 2), never) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        run_in_process(partial(divmod, 7, 0), never)


def test_a_process_that_dies_is_told() -> None:
    with pytest.raises(RuntimeError, match="has ended early"):
        run_in_process(partial(os._exit, 3), never)


def test_nothing_once_cancelled() -> None:
    assert run_in_process(partial(time.sleep, 3600), lambda: True) is None
