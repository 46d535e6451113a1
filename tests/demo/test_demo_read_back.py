"""The reader returns exactly the events of the schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ccltui.demo import Cut, Spec, write_job
from ccltui.demo.kineto_writer import observe
from ccltui.demo.simulate import simulate
from ccltui.demo.spec import Layout
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.kineto.kineto_reader import read_kineto

SMALL = {"steps": 2, "layers": 2, "micro_batches": 2, "jitter_ns": 991}
LAYOUTS: tuple[Layout, ...] = (
    "native",
    "metadata_last",
    "one_line",
    "indent4",
    "bare_list",
    "integer_us",
    "old2021",
)


def spec_of(layout: Layout, **changes: Any) -> Spec:
    metadata = "names_only" if layout == "old2021" else "full"
    return Spec.quiet(**{**SMALL, "layout": layout, "metadata": metadata, **changes})


def read(directory: Path, spec: Spec, rank: int) -> RankTrace:
    write_job(directory, spec)
    return read_kineto(directory / f"kineto_trace_{rank}.json.gz")


def device_work(spec: Spec, rank: int) -> np.ndarray:
    """(start, duration) of the rank's kernels, copies and memsets, sorted."""
    rows = [(item.start_ns, item.dur_ns) for item in observe(simulate(spec)).activities[rank]]
    return np.array(sorted(rows, key=lambda row: (row[0], -row[1])), np.int64)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_device_work_is_read_to_the_nanosecond(tmp_path: Path, layout: Layout) -> None:
    spec = spec_of(layout, clock_offsets_ns=(0, 5_000_000))

    trace = read(tmp_path, spec, rank=6)

    gpu = trace.group("gpu")
    wanted = device_work(spec, 6)
    np.testing.assert_array_equal(gpu.start_ns, wanted[:, 0])
    np.testing.assert_array_equal(gpu.dur_ns, wanted[:, 1])
    assert not trace.truncated
    assert trace.notes == ()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_file_says_its_rank_where_the_layout_can(tmp_path: Path, layout: Layout) -> None:
    trace = read(tmp_path, spec_of(layout), rank=6)

    knows = layout not in ("bare_list", "old2021")
    assert trace.rank == (6 if knows else None)
    assert trace.world_size == (8 if knows else None)
    assert trace.host == ("demo-node-2" if knows and layout != "integer_us" else "")


def test_groups_are_those_of_the_rank(tmp_path: Path) -> None:
    trace = read(tmp_path, spec_of("native"), rank=6)

    assert {(group.description, group.ranks) for group in trace.process_groups} == {
        ("default_pg", (0, 1, 2, 3, 4, 5, 6, 7)),
        ("mesh_pp", (2, 6)),
        ("mesh_dp_shard", (4, 6)),
        ("mesh_tp", (6, 7)),
    }


@pytest.mark.parametrize("metadata", ["comms_id", "full", "no_seq", "cpu_side"])
def test_collective_arguments_reach_the_kernels(tmp_path: Path, metadata: Any) -> None:
    spec = spec_of("native", metadata=metadata)
    schedule = simulate(spec)

    trace = read(tmp_path, spec, rank=6)

    gpu, args = trace.group("gpu"), trace.collective_args
    rows = [row for row in range(len(gpu)) if gpu.args[row] >= 0]
    found = sorted(
        (
            int(gpu.start_ns[row]),
            trace.text(int(args.op[gpu.args[row]])),
            int(args.in_elems[gpu.args[row]]),
            int(args.out_elems[gpu.args[row]]),
            int(args.seq[gpu.args[row]]),
            int(args.comms_id[gpu.args[row]]),
        )
        for row in rows
    )
    wanted = sorted(
        (
            item.start_ns,
            item.kind,
            schedule.calls[item.call].in_elems,
            schedule.calls[item.call].out_elems,
            -1 if metadata == "no_seq" else item.seq,
            schedule.calls[item.call].group.comms_id if metadata == "comms_id" else 0,
        )
        for item in observe(schedule).activities[6]
        if item.klass == "comm"
    )
    assert found == wanted


def test_p2p_peers_reach_the_kernels(tmp_path: Path) -> None:
    trace = read(tmp_path, spec_of("native"), rank=6)

    args = trace.collective_args
    peers = {
        (trace.text(int(args.op[row])), int(args.src[row]), int(args.dst[row]))
        for row in range(len(args))
        if trace.text(int(args.op[row])) in ("send", "recv")
    }
    assert peers == {("recv", 2, 6), ("send", 6, 2)}


def test_a_cut_file_gives_the_events_that_are_whole(tmp_path: Path) -> None:
    spec = spec_of("native", cuts=(Cut(rank=6, fraction=0.9),))

    truth = write_job(tmp_path, spec)
    trace = read_kineto(tmp_path / "kineto_trace_6.json.gz")

    gpu = trace.group("gpu")
    assert trace.truncated
    assert [note.code for note in trace.notes] == ["truncated_trace"]
    kept = sum(truth.ranks[6].calls_by_type.values())
    communication = [row for row in range(len(gpu)) if gpu.args[row] >= 0]
    assert 0 < kept == len(communication)


def test_optional_rows_go_to_groups_of_their_own(tmp_path: Path) -> None:
    spec = spec_of("native", with_python=True, with_sync_rows=True)

    trace = read(tmp_path, spec, rank=0)

    assert len(trace.group("gpu_sync")) == 2
    assert len(trace.group("python")) == 1 + 2 * 2
    assert len(trace.group("gpu")) == len(device_work(spec, 0))
