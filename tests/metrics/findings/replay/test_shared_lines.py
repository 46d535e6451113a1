"""Lines of ranks that have columns in common: found once, and those of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import asdict, replace
from planted_jobs import Planted, planted_job

from ccltui.metrics.findings.replay.lines import call_table
from ccltui.metrics.findings.replay.lines.call_table import JoinedCalls, Whole
from ccltui.metrics.findings.replay.lines.job_lines import job_lines
from ccltui.metrics.findings.replay.lines.step_lines import StepCalls, main_rows, step_lines
from ccltui.metrics.model.calls import Calls
from ccltui.metrics.model.rank_facts import RankFacts, SharedResults
from ccltui.metrics.view.job_view import View
from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.columns import RankTrace

Times = Callable[[I64, I64], tuple[I64, I64]]


def first_rank() -> tuple[RankTrace, Calls]:
    view = View(planted_job(Planted(dp=2, pp=2, steps=3, micro_batches=4, host_rows=True)))
    item = view.match_inputs[0]
    return view.facts.ranks[item.label].trace, item.calls


def moved(trace: RankTrace, calls: Calls, times: Times) -> tuple[RankTrace, Calls]:
    """The same work at other times: all other columns are the same arrays."""
    gpu = trace.group("gpu")
    start, length = times(gpu.start_ns, gpu.dur_ns)
    other = replace(
        trace, events={**trace.events, "gpu": gpu.with_columns(start_ns=start, dur_ns=length)}
    )
    rows = calls.rows.of("gpu")
    return other, replace(calls, start_ns=start[rows], dur_ns=length[rows])


def columns_of(
    trace: RankTrace, calls: Calls, chosen: frozenset[int], shared: SharedResults
) -> dict[str, Any]:
    lines, of_calls = step_lines(RankFacts(trace, shared), calls, chosen)
    return asdict(lines) | {f"call_{name}": one for name, one in asdict(of_calls).items()}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    "times",
    [
        lambda start, length: (start + 7_000, length),
        lambda start, length: (start, length // 2),
        lambda start, length: (start + 3 * np.arange(len(start)), length + start % 5),
    ],
)
def test_lines_of_ranks_at_other_times_are_their_own(times: Times) -> None:
    trace, calls = first_rank()
    shared, chosen = SharedResults(), frozenset({0, 1, 2})

    one = columns_of(trace, calls, chosen, shared)
    there = moved(trace, calls, times)
    other = columns_of(*there, chosen, shared)

    assert other["gpu_row"] is one["gpu_row"]
    assert other["call_row"] is one["call_row"]
    assert same(other, columns_of(*there, chosen, SharedResults()))
    assert not same(other, one)


def test_lines_of_other_steps_are_found_anew() -> None:
    trace, calls = first_rank()
    shared = SharedResults()
    columns_of(trace, calls, frozenset({0, 1, 2}), shared)

    fewer = columns_of(trace, calls, frozenset({1, 2}), shared)

    assert fewer["steps"].tolist() == [1, 2]
    assert same(fewer, columns_of(trace, calls, frozenset({1, 2}), SharedResults()))


def test_a_rank_whose_work_lasts_longer_on_another_stream_has_that_as_its_line() -> None:
    trace, _ = first_rank()
    gpu = trace.group("gpu")
    work = main_rows(RankFacts(trace))
    track = gpu.track.copy()
    track[work[::2]] = other_track = int(gpu.track[gpu.track != gpu.track[work[0]]][0])
    long, short = np.int64(1_000_000), np.int64(10)
    shared = SharedResults()

    def rows_where(lasts: np.ndarray[Any, np.dtype[np.bool_]]) -> list[int]:
        columns = gpu.with_columns(track=track, dur_ns=np.where(lasts, long, short))
        one = replace(trace, events={**trace.events, "gpu": columns})
        found: list[int] = main_rows(RankFacts(one, shared)).tolist()
        return found

    is_other = track == other_track

    assert rows_where(is_other) == work[::2].tolist()
    assert rows_where(~is_other) == work[1::2].tolist()


def test_calls_of_ranks_that_do_the_same_are_ordered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    both = planted_job(Planted(dp=2, steps=150, micro_batches=1, host_rows=True))
    one, other = both.ranks
    gpu = one.group("gpu").with_columns(dur_ns=one.group("gpu").dur_ns + 1)
    second = replace(one, label=other.label, rank=other.rank, events={**one.events, "gpu": gpu})
    alike = replace(both, ranks=(one, second))
    ordered = list[int]()

    def counted(start: Whole, token: I32, line: I32) -> I64:
        ordered.append(len(token))
        return in_order(start, token, line)

    in_order = call_table._in_order
    monkeypatch.setattr(call_table, "_in_order", counted)
    once = job_lines(View(alike)).table
    assert len(ordered) == 1

    def added(self: JoinedCalls, calls: StepCalls, num_lines: int) -> None:
        add(self, calls, num_lines)
        self.alike[-1] = False

    add = JoinedCalls.add
    monkeypatch.setattr(JoinedCalls, "add", added)
    assert same(asdict(once), asdict(job_lines(View(alike)).table))
    assert len(ordered) == 3
