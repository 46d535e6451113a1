"""Perfetto traces, read with Perfetto's own message classes."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain
from pathlib import Path

import numpy as np
import orjson
import pytest
from perfetto_reader import Read, read

from ccltui.export.perfetto_trace import DEVICE_GROUPS, ManifestError, manifest, perfetto_trace
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.job import open_job
from ccltui.parsers.window import Window


def written(view: View, path: Path) -> Read:
    path.write_bytes(b"".join(perfetto_trace(view)))
    return read(path)


@pytest.fixture(scope="module")
def trace(view: View, tmp_path_factory: pytest.TempPathFactory) -> Read:
    return written(view, tmp_path_factory.mktemp("trace") / "job.pftrace")


def test_every_event_of_every_rank_is_a_slice_of_its_time(view: View, trace: Read) -> None:
    expected: Counter[tuple[str, str, int, int]] = Counter()
    for rank in view.ranks:
        process = f"rank {rank.label} ({rank.trace.host})"
        for group, events in rank.trace.events.items():
            if group == "gpu_sync":
                continue
            start = view.on_job_clock(rank.label, events.start_ns) - view.origin_ns
            end = view.on_job_clock(rank.label, events.end_ns) - view.origin_ns
            names = [rank.trace.text(name) for name in events.name.tolist()]
            expected.update(
                zip([process] * len(start), names, start.tolist(), end.tolist(), strict=True)
            )

    found: Counter[tuple[str, str, int, int]] = Counter()
    for track, slices in trace.slices.items():
        if not trace.names[track].startswith("collectives of "):
            process = trace.process_of(track)
            found.update((process, one.name, one.start_ns, one.end_ns) for one in slices)
    assert found == expected


def test_collectives_carry_lag_and_are_joined_across_ranks(view: View, trace: Read) -> None:
    by_flow = defaultdict(list)
    for track, slices in trace.slices.items():
        if trace.names[track].startswith("collectives of "):
            for one in slices:
                (flow,) = one.flows
                by_flow[flow].append((trace.process_of(track), one))
    expected = {
        (number + 1) << 32 | instance: group
        for number, group in enumerate(view.arrivals.groups)
        for instance in range(len(group.match.rows))
    }
    assert by_flow.keys() == expected.keys()
    for flow, calls in by_flow.items():
        group, instance = expected[flow], flow & 0xFFFFFFFF
        assert len({process for process, _ in calls}) == len(group.labels)
        assert {one.notes["lag_ns"] for _, one in calls} == {int(group.lag_ns[instance])}
        waits = sorted(one.notes["wait_ns"] for _, one in calls)
        assert waits == sorted(group.wait_ns[instance].tolist())


def test_delays_are_instants_of_the_rank_that_caused_them(view: View, trace: Read) -> None:
    blamed = Counter(
        group.labels[last] for group in view.arrivals.groups for last in group.last if last >= 0
    )
    assert blamed
    found: Counter[str] = Counter()
    for track, names in trace.instants.items():
        assert all(name.startswith("latest by ") for name in names)
        found[trace.process_of(track).split()[1]] += len(names)
    assert found == blamed


def test_lags_are_counters_of_each_communicator(view: View, trace: Read) -> None:
    found = {trace.names[track]: values for track, values in trace.counters.items()}
    for number, group in enumerate(view.arrivals.groups):
        name = f"lag of {view.groups[group.match.group].label}"
        values = [value for _, value in trace.counters[number + 1]]
        assert name in found
        assert sorted(values) == sorted(group.lag_ns[group.lag_ns >= 0].tolist())


def test_a_window_and_ranks_limit_what_is_written(view: View, tmp_path: Path) -> None:
    part = View(view.job, ViewOptions(Window(1_000_000, 9_000_000), ranks=frozenset({1})))

    found = written(part, tmp_path / "part.pftrace")

    assert {found.process_of(track).split()[1] for track in found.slices} == {"1"}
    starts = [one.start_ns for slices in found.slices.values() for one in slices]
    assert starts
    assert min(starts) >= 1_000_000
    assert max(starts) < 9_000_000


def test_hosts_can_be_left_out(view: View, tmp_path: Path) -> None:
    (tmp_path / "device.pftrace").write_bytes(b"".join(perfetto_trace(view, DEVICE_GROUPS)))

    found = read(tmp_path / "device.pftrace")

    kinds = {one.category for slices in found.slices.values() for one in slices}
    assert kinds <= {"", *DEVICE_GROUPS}


def test_a_manifest_puts_written_times_on_the_corrected_clock(view: View) -> None:
    files = orjson.loads(manifest(view))["perfetto_manifest"]["files"]

    assert "clocks" not in files[0]
    first = view.ranks[0]
    for file, rank in zip(files[1:], view.ranks[1:], strict=True):
        assert file["clocks"]["sync_to"] == {"file": files[0]["path"]}
        # Perfetto reads T in this file when the first one reads T + offset_ns.
        own = rank.trace.group("gpu").start_ns[:1]
        moment = view.on_job_clock(rank.label, own)
        read_here = int(own[0]) - rank.trace.base_ns
        read_first = int(view.on_own_clock(first.label, moment)[0]) - first.trace.base_ns
        assert abs(read_first - read_here - file["clocks"]["offset_ns"]) <= 1
    assert len({file["clocks"]["offset_ns"] for file in files[1:]}) > 1


def test_files_of_one_name_have_no_manifest(view: View, tmp_path: Path) -> None:
    for rank in view.ranks[:2]:
        folder = tmp_path / f"rank{rank.label}"
        folder.mkdir()
        (folder / "trace.json.gz").symlink_to(rank.trace.source.real_path)
    same = View(open_job(tmp_path))

    with pytest.raises(ManifestError, match=r"several files are named trace\.json\.gz"):
        manifest(same)


def test_overlapping_work_of_one_stream_is_all_there(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur}
        | {"args": {"device": 0, "stream": 7}}
        for name, ts, dur in (("a", 0, 10), ("b", 5, 10), ("c", 9, 10), ("d", 30, 0))
    ]
    (tmp_path / "trace.json").write_bytes(orjson.dumps({"traceEvents": events}))

    found = written(View(open_job(tmp_path)), tmp_path / "out.pftrace")

    slices = [(one.name, one.end_ns - one.start_ns) for one in chain(*found.slices.values())]
    assert sorted(slices) == [("a", 10_000), ("b", 10_000), ("c", 10_000), ("d", 0)]
    assert np.ptp([len(slices) for slices in found.slices.values()]) == 1
