"""Perfetto traces, opened by Perfetto's own trace processor and queried by SQL."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from perfetto_engine import Row, query

from ccltui.export.perfetto_trace import perfetto_trace
from ccltui.metrics.view.job_view import View

PROCESSES = "select pid, name from process where pid > 0 order by pid"
WORK = """
    select process.name as process, slice.name as name, slice.ts as ts, slice.dur as dur
    from slice join process_track on slice.track_id = process_track.id
    join process using (upid)
    union all
    select process.name, slice.name, slice.ts, slice.dur
    from slice join thread_track on slice.track_id = thread_track.id
    join thread using (utid) join process using (upid)
"""
TRACKS = """
    select coalesce(track.name, '') as name, sum(slice.name not like 'latest by %') as slices,
        sum(slice.name like 'latest by %') as delays
    from slice join track on slice.track_id = track.id group by 1
"""
FLOWS = """
    select a.name as name, count(*) as joined, sum(a.id = b.id) as selves
    from flow join slice a on flow.slice_out = a.id join slice b on flow.slice_in = b.id
    group by a.name
"""
LAGS = """
    select counter_track.name as name, counter.value as value
    from counter join counter_track on counter.track_id = counter_track.id
"""
NOTES = """
    select slice.name as name, args.display_value as rank
    from slice join args using (arg_set_id) where args.key like '%latest_rank'
"""
PROBLEMS = "select name, value from stats where severity != 'info' and value > 0"


@pytest.fixture(scope="module")
def answers(view: View, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[Row]]:
    """Rows of every statement."""
    folder = tmp_path_factory.mktemp("sql")
    path = folder / "job.pftrace.gz"
    path.write_bytes(gzip.compress(b"".join(perfetto_trace(view)), 1))
    statements = (PROCESSES, WORK, TRACKS, FLOWS, LAGS, NOTES, PROBLEMS)
    return dict(zip(statements, query(path, statements, folder), strict=True))


def test_nothing_is_lost_or_out_of_order(answers: Mapping[str, list[Row]]) -> None:
    assert answers[PROBLEMS] == []


def test_every_rank_is_a_process(view: View, answers: Mapping[str, list[Row]]) -> None:
    names = [name for _, name in answers[PROCESSES]]

    assert names == [f"rank {rank.label} ({rank.trace.host})" for rank in view.ranks]


def test_device_work_has_its_name_and_its_time_on_the_corrected_clock(
    view: View, answers: Mapping[str, list[Row]]
) -> None:
    found = Counter(answers[WORK])
    expected: Counter[Row] = Counter()
    for rank in view.ranks:
        work = rank.trace.group("gpu")
        start = view.on_job_clock(rank.label, work.start_ns) - view.origin_ns
        end = view.on_job_clock(rank.label, work.end_ns) - view.origin_ns
        process = f"rank {rank.label} ({rank.trace.host})"
        names = [rank.trace.text(name) for name in work.name.tolist()]
        times = zip(names, start.tolist(), (end - start).tolist(), strict=True)
        expected.update((process, *one) for one in times)

    assert sum(expected.values()) > 1000
    assert expected <= found


def test_collectives_are_joined_by_flows(view: View, answers: Mapping[str, list[Row]]) -> None:
    joined = sum(count for _, count, _ in answers[FLOWS])
    selves = sum(count for *_, count in answers[FLOWS])
    tracks = [one for one in answers[TRACKS] if str(one[0]).startswith("collectives of ")]
    calls, delays = (sum(one[column] for one in tracks) for column in (1, 2))

    matched = [np.asarray(group.match.rows) for group in view.arrivals.groups]
    assert calls == sum(int((rows >= 0).sum()) for rows in matched)
    assert joined == sum(int((rows >= 0).sum()) - len(rows) for rows in matched)
    assert selves == 0
    assert delays == sum(int((group.last >= 0).sum()) for group in view.arrivals.groups)


def test_lags_are_counters(view: View, answers: Mapping[str, list[Row]]) -> None:
    found: Counter[tuple[str, int]] = Counter(
        (str(name), int(value)) for name, value in answers[LAGS]
    )

    expected: Counter[tuple[str, int]] = Counter()
    for group in view.arrivals.groups:
        name = f"lag of {view.groups[group.match.group].label}"
        expected.update((name, lag) for lag in group.lag_ns[group.lag_ns >= 0].tolist())
    assert found == expected


def test_the_latest_rank_is_an_argument_of_the_slices(
    view: View, answers: Mapping[str, list[Row]]
) -> None:
    expected: Counter[str] = Counter()
    for group in view.arrivals.groups:
        for last in group.last.tolist():
            if last >= 0:
                expected[group.labels[last]] += len(group.labels)

    assert Counter(str(rank) for _, rank in answers[NOTES]) == expected
