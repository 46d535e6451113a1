"""metric_cal(directory): from files to a document, whatever their form."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ccltui.metrics.catalog.communication.coll_call_num import metric_cal as coll_call_num
from ccltui.metrics.catalog.communication.comm_comp_overlap import metric_cal as comm_comp_overlap
from ccltui.metrics.catalog.throughput.throughput_tokens import metric_cal as throughput_tokens
from ccltui.metrics.catalog.time.iter_time import metric_cal as iter_time
from ccltui.metrics.registry import find
from ccltui.parsers.errors import NotFoundError
from ccltui.parsers.window import Window

ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def events() -> list[dict[str, Any]]:
    """One step with two kernels, one of them a collective that overlaps the other by half."""
    meta = {
        "stream": 20,
        "Collective name": "allreduce",
        "In msg nelems": 1024,
        "Out msg nelems": 1024,
        "dtype": "Float",
        "Group size": 2,
        "Process Group Name": "0",
        "Process Group Description": "default_pg",
        "Process Group Ranks": "[0, 1]",
    }
    where = {"ph": "X", "pid": 0, "tid": 7}
    return [
        {**where, "cat": "user_annotation", "name": "ProfilerStep#5", "ts": 0, "dur": 1000},
        {**where, "cat": "kernel", "name": "gemm", "ts": 100, "dur": 400, "args": {"stream": 7}},
        {**where, "cat": "kernel", "name": ALLREDUCE, "ts": 400, "dur": 200, "args": meta},
    ]


def document(rank: int, rows: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {
        "traceEvents": events() if rows is None else rows,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
    }


def write(directory: Path, *, indent: int | None = None) -> Path:
    directory.mkdir(exist_ok=True)
    for rank in (0, 1):
        text = json.dumps(document(rank), indent=indent)
        (directory / f"rank{rank}_trace.json").write_text(text)
    return directory


def numbers(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key not in ("inputs", "warnings")}


def test_a_directory_gives_the_flat_document(tmp_path: Path) -> None:
    result = coll_call_num(str(write(tmp_path / "job")))

    assert (result["metric"], result["schema"], result["status"]) == ("coll_call_num", 1, "ok")
    assert result["calls_per_rank"] == {"0": 1, "1": 1}
    assert result["inputs"]["files"] == ["rank0_trace.json", "rank1_trace.json"]
    assert json.loads(json.dumps(result)) == result


def test_a_single_file_is_a_directory_of_one(tmp_path: Path) -> None:
    write(tmp_path / "job")

    result = comm_comp_overlap(tmp_path / "job" / "rank1_trace.json")

    assert (result["status"], result["reason"]) == ("partial", "missing_ranks")
    assert (result["comm_time_ms"], result["overlap_time_ms"]) == (0.2, 0.1)


def test_a_directory_that_is_not_there_is_an_error_not_a_zero(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        coll_call_num(tmp_path / "absent")


def test_a_directory_without_traces_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")

    result = coll_call_num(tmp_path)

    assert (result["status"], result["reason"]) == ("unavailable", "no_trace")
    assert result["total_calls"] is None


@pytest.mark.parametrize("metric", ["coll_call_num", "comm_comp_overlap", "iter_time"])
def test_the_form_of_the_files_changes_no_number(tmp_path: Path, metric: str) -> None:
    calculate = find(metric).document_of
    plain = numbers(calculate(write(tmp_path / "line")))

    assert numbers(calculate(write(tmp_path / "pretty", indent=4))) == plain

    packed = write(tmp_path / "packed")
    for path in sorted(packed.iterdir()):
        (packed / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert numbers(calculate(packed)) == plain

    shuffled = tmp_path / "shuffled"
    shuffled.mkdir()
    for rank in (0, 1):
        text = json.dumps(document(rank, events()[::-1]))
        (shuffled / f"rank{rank}_trace.json").write_text(text)
    assert numbers(calculate(shuffled)) == plain


@pytest.mark.parametrize("how", ["symlink", "copy"])
def test_a_file_that_repeats_another_counts_once_and_is_named(tmp_path: Path, how: str) -> None:
    directory = write(tmp_path / "job")
    plain = coll_call_num(directory)

    again = directory / "kineto_trace_0.json"
    if how == "symlink":
        again.symlink_to("rank0_trace.json")
    else:
        again.write_bytes((directory / "rank0_trace.json").read_bytes())
    repeated = coll_call_num(directory)

    assert numbers(repeated) == numbers(plain)
    assert len(repeated["inputs"]["duplicates"]) == 1
    warned = any("counted once" in warning for warning in repeated["warnings"])
    assert warned == (how == "copy")  # a link is how the layout of the traces asks for it


def test_options_reach_the_view(tmp_path: Path) -> None:
    directory = write(tmp_path / "job")

    assert coll_call_num(directory, ranks=frozenset({1}))["calls_per_rank"] == {"1": 1}
    assert coll_call_num(directory, window=Window(450_000, None))["total_calls"] == 0
    assert coll_call_num(directory, "nsys")["reason"] == "mode_mismatch"
    assert coll_call_num(directory, group="world")["total_calls"] == 2
    assert iter_time(directory, steps=(6, 7))["reason"] == "window_empty"
    assert comm_comp_overlap(directory, span="trace")["basis"]["window"] == "trace"
    with pytest.raises(ValueError, match="auto, torch or nsys"):
        coll_call_num(directory, "cuda")  # type: ignore[arg-type]
    stated = {"batch_size": 1, "seq_len": 10, "batch_size_scope": "global"}
    assert throughput_tokens(directory, overrides=stated)["throughput_tokens_per_s"] == 10_000.0
