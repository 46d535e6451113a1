"""Device events whose times cannot be true are kept apart, and the notes say why."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nsys_exports import Export

from ccltui.parsers import device_times
from ccltui.parsers.columns import UNTIMED, RankTrace
from ccltui.parsers.device_times import BelievedTraces, find_impossible, lost_times
from ccltui.parsers.formats import read_file

BASE_US = 4_820_000_000_000.0
STEP_US = 10_000.0
FULL = 8  # kernels of the job: two of each step

Event = dict[str, Any]


def launch(number: int, at_us: float) -> Event:
    """Return a call that launches the kernel of a number."""
    name = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1}
    return name | {"ts": at_us, "dur": 8.0, "args": {"correlation": number}}


def kernel(number: int, at_us: float, dur_us: float, stream: int = 7, name: str = "gemm") -> Event:
    """Return a kernel; the number names its launch."""
    args = {"correlation": number, "device": 0, "stream": stream}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "args": args} | {
        "ts": at_us,
        "dur": dur_us,
    }


def job(base_us: float = BASE_US) -> list[Event]:
    """Return four steps of 10 ms: each launches a kernel of 3 ms, and one of 2 ms after it."""
    events: list[Event] = []
    for step in range(4):
        at = base_us + step * STEP_US
        events += [launch(2 * step + 1, at + 50), launch(2 * step + 2, at + 90)]
        events += [kernel(2 * step + 1, at + 100, 3000.0), kernel(2 * step + 2, at + 3120, 2000.0)]
    end = {"ph": "X", "cat": "cpu_op", "name": "aten::end", "pid": 1, "tid": 1, "dur": 10.0}
    return [*events, end | {"ts": base_us + 4 * STEP_US - 20, "args": {}}]


def kernels(events: Sequence[Event]) -> list[Event]:
    """Return the kernels among events."""
    return [event for event in events if event["cat"] == "kernel"]


def read(folder: Path, events: Sequence[Event], **members: object) -> RankTrace:
    """Write events as a Kineto trace, and read them as every reader's columns are read."""
    path = folder / "trace.json.gz"
    document = {"baseTimeNanoseconds": 1_735_689_600_000_000_000, **members}
    path.write_bytes(gzip.compress(json.dumps(document | {"traceEvents": events}).encode()))
    return read_file(path, "kineto", shown="trace.json.gz")[0]


def noted(trace: RankTrace) -> dict[str, int]:
    """Return the number of events in the notes, by code."""
    return {note.code: note.count for note in trace.notes}


def sizes(trace: RankTrace) -> tuple[int, int]:
    """Return the number of device events with a time, and of those without."""
    return len(trace.group("gpu")), len(trace.group(UNTIMED))


def test_sound_times_are_kept_without_a_note(tmp_path: Path) -> None:
    trace = read(tmp_path, job())

    assert sizes(trace) == (FULL, 0)
    assert not trace.notes


def test_a_kernel_before_its_launch_belongs_to_the_launch_and_has_no_time(tmp_path: Path) -> None:
    events = job()
    launched = int(np.rint((events[8]["ts"]) * 1000))
    kernels(events)[4]["ts"] -= 1e11

    trace = read(tmp_path, events)

    assert sizes(trace) == (FULL - 1, 1)
    assert noted(trace) == {"before_launch": 1}
    apart = trace.group(UNTIMED)
    assert apart.start_ns[0] - trace.base_ns == launched
    assert apart.dur_ns[0] == 0
    assert trace.first_ns == trace.base_ns + int(BASE_US + 50) * 1000


@pytest.mark.parametrize(("early_us", "believed"), [(1040, True), (1060, False)])
def test_a_millisecond_before_the_launch_is_believed(
    tmp_path: Path, early_us: int, *, believed: bool
) -> None:
    events = job()
    kernels(events)[4]["ts"] -= early_us

    assert sizes(read(tmp_path, events)) == ((FULL, 0) if believed else (FULL - 1, 1))


@pytest.mark.parametrize("shift_us", [1e11, -1e11])
def test_without_launches_the_host_events_bound_the_times(tmp_path: Path, shift_us: float) -> None:
    events = job()
    for one in kernels(events):
        one["args"].pop("correlation")
    kernels(events)[3]["ts"] += shift_us

    trace = read(tmp_path, events)

    assert sizes(trace) == (FULL - 1, 0)  # no step can be said to hold it
    assert noted(trace) == {"outside": 1}


def test_work_that_outlasts_the_host_by_less_than_the_recording_is_believed(
    tmp_path: Path,
) -> None:
    events = job()
    kernels(events)[-1]["ts"] += 35_000

    assert noted(read(tmp_path, events)) == {}


def test_a_host_may_be_done_long_before_its_device(tmp_path: Path) -> None:
    launches = [launch(number, BASE_US + number) for number in range(1, 101)]
    work = [kernel(number, BASE_US + 5000.0 * number, 4900.0) for number in range(1, 101)]

    assert noted(read(tmp_path, [*launches, *work])) == {}


def test_the_last_kernel_may_not_outlast_the_recording(tmp_path: Path) -> None:
    events = job()
    kernels(events)[-1]["dur"] = 1.6e6

    trace = read(tmp_path, events)

    assert sizes(trace) == (FULL - 1, 1)
    assert noted(trace) == {"outside": 1}


def test_time_zero_of_absolute_times_is_not_measured(tmp_path: Path) -> None:
    extra = [kernel(900 + number, 0.0, 0.0, name="unknown") for number in range(3)]

    trace = read(tmp_path, [*job(), *extra], baseTimeNanoseconds=None)

    assert sizes(trace) == (FULL, 0)
    assert noted(trace)["at_zero"] == 3


def test_times_that_count_from_the_first_kernel_are_sound(tmp_path: Path) -> None:
    events = [one for one in job(base_us=-100.0) if one["cat"] == "kernel"]

    trace = read(tmp_path, events, baseTimeNanoseconds=0)

    assert trace.group("gpu").start_ns[0] == 0
    assert noted(trace) == {}


@pytest.mark.parametrize(("number", "believed"), [(1, True), (2, False)])
def test_one_kernel_alone_may_be_at_time_zero(
    tmp_path: Path, number: int, *, believed: bool
) -> None:
    events = [kernel(-1, 0.0, 20.0, name=f"gemm {place}") for place in range(number)]

    trace = read(tmp_path, events, baseTimeNanoseconds=0)

    assert sizes(trace)[0] == (number if believed else 0)


def test_a_kernel_ends_where_the_next_of_its_stream_begins(tmp_path: Path) -> None:
    events = job()
    kernels(events)[2]["dur"] = 1.6e6

    trace = read(tmp_path, events)

    assert noted(trace) == {"overlong": 1}
    gpu = trace.group("gpu")
    assert gpu.dur_ns[2] == gpu.start_ns[3] - gpu.start_ns[2]
    assert int(gpu.dur_ns.max()) == 3_020_000


def test_of_a_chain_of_overlong_kernels_each_ends_at_the_next(tmp_path: Path) -> None:
    events = job()
    for one in kernels(events):
        one["dur"] += 9_000

    trace = read(tmp_path, events)

    gpu = trace.group("gpu")
    assert noted(trace) == {"overlong": FULL - 1}
    assert (gpu.end_ns[:-1] == gpu.start_ns[1:]).all()


def test_streams_run_side_by_side(tmp_path: Path) -> None:
    events = [*job(), kernel(500, BASE_US + 200, 9000.0, stream=20)]

    assert noted(read(tmp_path, events)) == {}


def test_branches_of_one_graph_may_overlap_on_a_stream(tmp_path: Path) -> None:
    at = BASE_US + 6000
    graph = [launch(70, at - 100), kernel(70, at, 3000.0), kernel(70, at + 10, 3000.0)]

    assert noted(read(tmp_path, [*job(), *graph])) == {}


def test_a_graph_that_overlaps_the_kernel_after_it_is_cut(tmp_path: Path) -> None:
    at = BASE_US + 6000
    graph = [launch(70, at - 100), kernel(70, at, 9000.0), kernel(70, at + 10, 9000.0)]

    trace = read(tmp_path, [*job(), *graph])

    assert noted(trace) == {"overlong": 2}
    assert int((trace.group("gpu").end_ns - trace.base_ns).max() // 1000) == BASE_US + 35120


@pytest.mark.parametrize("shift_us", [-5_000.0, -6e7, 6e7])
def test_a_clock_that_is_off_for_all_kernels_gives_no_times(
    tmp_path: Path, shift_us: float
) -> None:
    events = job()
    for one in kernels(events):
        one["ts"] += shift_us

    trace = read(tmp_path, events)

    assert sizes(trace) == (0, FULL)
    assert "device_clock" in noted(trace)
    assert lost_times(trace) == FULL


def test_copies_of_a_device_whose_kernels_have_no_times_are_not_timed(tmp_path: Path) -> None:
    events = job()
    for one in kernels(events):
        one["ts"] = 0.0
    copy = kernel(90, BASE_US + 5500, 20.0) | {"cat": "gpu_memcpy", "name": "Memcpy HtoD"}
    annotation = kernel(91, 0.0, 20.0) | {"cat": "gpu_user_annotation"}

    trace = read(tmp_path, [*events, annotation, launch(90, BASE_US + 5490), copy])

    assert sizes(trace) == (0, FULL + 1)
    assert len(trace.group("gpu_annotations")) == 0


def test_exact_copies_count_once(tmp_path: Path) -> None:
    events = job()
    again = [dict(one) for one in kernels(events)]

    trace = read(tmp_path, [*events, *again, again[0]])

    assert sizes(trace) == (FULL, 0)
    assert noted(trace) == {"copies": FULL + 1}


def test_exact_copies_of_launches_count_once(tmp_path: Path) -> None:
    calls = [event for event in job() if event["cat"] == "cuda_runtime"]

    trace = read(tmp_path, [*job(), *calls[:3], launch(90, BASE_US), launch(91, BASE_US)])

    assert sizes(trace) == (FULL, 0)
    assert len(trace.group("runtime")) == len(calls) + 2
    assert noted(trace) == {"call_copies": 3}
    assert not lost_times(trace)


def test_kernels_that_differ_in_any_field_are_no_copies(tmp_path: Path) -> None:
    first = kernel(60, BASE_US + 6000, 20.0)
    others = [
        first | {"name": "other"},
        first | {"dur": 20.001},
        kernel(61, BASE_US + 6000, 20.0),
        kernel(60, BASE_US + 6000, 20.0, stream=8),
    ]

    assert noted(read(tmp_path, [*job(), first, *others])) == {}


def test_durations_below_zero_and_times_that_are_none_are_dropped(tmp_path: Path) -> None:
    events = job()
    mine = kernels(events)
    mine[1]["dur"], mine[3]["ts"], mine[5]["ts"] = -5.0, "NaN", 1e30

    trace = read(tmp_path, events)

    assert sizes(trace) == (FULL - 3, 0)
    assert noted(trace) == {"negative_duration": 1, "bad_time": 2}
    assert lost_times(trace) == 3


def test_launches_with_ids_far_apart_are_found(tmp_path: Path) -> None:
    events = job()
    for one in events:
        if "correlation" in one["args"]:
            one["args"]["correlation"] *= 1 << 40
    kernels(events)[4]["ts"] -= 1e11

    assert noted(read(tmp_path, events)) == {"before_launch": 1}


def test_of_launches_with_one_id_the_first_counts(tmp_path: Path) -> None:
    events = [*job(), launch(1, BASE_US + 30_000)]

    assert noted(read(tmp_path, events)) == {}


def export(folder: Path, *, zero: Sequence[int] = (), overlong: int = -1) -> Path:
    """Write an nsys export of kernels that 40 calls launch, some of them without a time."""
    written = Export()
    process = written.process(4101)
    for number in range(40):
        at = 100_000_000 + number * 2_000_000
        end = at + (900_000_000 if number == overlong else 1_500_000)
        start, end = (0, 0) if number in zero else (at, end)
        process.kernel("gemm", start, end, launched=at - 20_000)
    return written.write(folder / "job.sqlite")


@pytest.mark.parametrize("piece_rows", [7, 1 << 18])
def test_exports_of_nsys_are_looked_at_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_rows: int
) -> None:
    monkeypatch.setattr(device_times, "_PIECE_ROWS", piece_rows)
    path = export(tmp_path, zero=(3, 20, 21), overlong=12)

    trace = read_file(path, "nsys_sqlite", shown="job.sqlite")[0]

    gpu = trace.group("gpu")
    assert sizes(trace) == (37, 3)
    assert (len(gpu.name), len(gpu.correlation), len(gpu.dur_ns)) == (37, 37, 37)
    assert gpu.comes_in_pieces
    assert sum(map(len, gpu.pieces("dur_ns"))) == 37
    assert noted(trace)["at_zero"] == 3
    assert noted(trace)["overlong"] == 1
    assert int(gpu.dur_ns.max()) == 2_000_000


def test_what_is_found_is_looked_for_once_a_rank(tmp_path: Path) -> None:
    calls = []

    class Traces(list[RankTrace]):
        def __getitem__(self, index: Any) -> Any:
            calls.append(index)
            return super().__getitem__(index)

    events = job()
    kernels(events)[4]["ts"] -= 1e11
    path = tmp_path / "plain.json"
    path.write_text(json.dumps({"traceEvents": events}))
    whole = read_file(path, "kineto", shown="plain.json")[0]
    traces = BelievedTraces(Traces([whole]), streams_are_serial=True)

    assert [len(traces), sizes(traces[0]), sizes(traces[0])] == [1, (FULL - 1, 1), (FULL - 1, 1)]
    assert find_impossible(traces[0]).is_dead is False
