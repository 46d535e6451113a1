"""Communication that DeepSpeed logged, as a metric."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs_by_hand import view_of

from ccltui.metrics.catalog.time.findings import answer_of
from ccltui.metrics.registry import find

TABLE = """\
Comm. Op  Message Size  Count  Total Latency(ms)  Avg Latency(ms)
all_reduce
    64.0 MB  10  {reduce}  1.0
all_gather
    4 B  3  2.5  1.0
"""
WAITED = """\
Comm. Op  Message Size  Count  Total comm lat(ms)  Total straggler(ms)  Avg comm lat(ms)
all_reduce
    64.0 MB  10  7.0  3.0  0.7
all_gather
    4 B  3  2.0  0.5  0.7
"""


def test_the_sum_over_operations(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(TABLE.format(reduce="10.0") + WAITED)

    result = find("comms_summary").run(view_of(tmp_path))

    assert (result.value, result.unit, result.status) == (12.5, "ms", "ok")
    assert result.details["waited_ms"] == 3.5
    assert result.details["waited_share"] == pytest.approx(0.28)
    assert [row["operation"] for row in result.details["operations"]] == [
        "all_reduce",
        "all_gather",
    ]


def test_waiting_that_is_not_stated_is_none(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(TABLE.format(reduce="10.0"))

    result = find("comms_summary").run(view_of(tmp_path))

    assert (result.value, result.details["waited_ms"], result.details["waited_share"]) == (
        12.5,
        None,
        None,
    )


def test_what_to_do_depends_on_the_waiting(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(WAITED)
    reduced, gathered = answer_of(view_of(tmp_path)).findings[:2]

    assert reduced.do.startswith("Find the rank that the others wait for")  # 3 of 7 ms
    assert gathered.do.startswith("Find the rank")  # 0.5 of 2 ms
    (tmp_path / "train.log").write_text(TABLE.format(reduce="10.0"))
    assert answer_of(view_of(tmp_path)).findings[0].do.startswith("Look whether computation hides")
