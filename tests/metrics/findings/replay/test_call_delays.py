"""Delays of calls that all members begin together: whose host they are of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from ccltui.metrics.findings.replay.lines.call_table import CallTable
from ccltui.metrics.findings.replay.lines.line_operations import own_delays
from ccltui.parsers.array_types import I64

UNKNOWN = -1
DELAY = np.array([500_000, 300_000, 400_000, 7_000])
"""Of three members of one call, and of a call of its own."""


def table(*durations: int) -> CallTable:
    """Calls of one instance, and one of none."""
    part = SimpleNamespace(
        instance=np.array([0] * len(durations) + [-1]),
        dur_ns=np.array([*durations, 1_000]),
        transfer_ns=np.array([min(durations)]),
    )
    return cast("CallTable", part)


@pytest.mark.parametrize(
    ("lead", "expected"),
    [
        ((2_000, 480_000, 380_000), [500_000, 0, 0]),
        ((2_000, 480_000, 3_000), [500_000, 0, 400_000]),
        ((90_000, 480_000, 380_000), [300_000] * 3),  # no launch was just before the begin
        ((2_000, UNKNOWN, 380_000), [300_000] * 3),
        (None, [300_000] * 3),
    ],
)
def test_a_delay_of_all_is_of_the_host_that_launched_last(
    lead: tuple[int, ...] | None, expected: list[int]
) -> None:
    def leads() -> I64:
        return np.array([*(lead or ()), UNKNOWN])

    found = own_delays(DELAY, table(9_000, 9_000, 9_500), 20_000, None if lead is None else leads)

    assert found.tolist() == [*expected, 7_000]


def test_members_that_wait_in_the_call_have_delays_of_their_own() -> None:
    found = own_delays(DELAY, table(9_000, 90_000, 9_500), 20_000, lambda: np.zeros(4, np.int64))

    assert found.tolist() == DELAY.tolist()


def test_nothing_is_looked_up_where_nobody_is_late() -> None:
    def never() -> I64:
        raise AssertionError("launches are looked up")

    found = own_delays(DELAY // 100, table(9_000, 9_000, 9_500), 20_000, never)

    assert found.tolist() == [3_000, 3_000, 3_000, 70]
