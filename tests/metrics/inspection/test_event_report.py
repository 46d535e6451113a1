"""What the inspector reports of one event, on traces written by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ccltui.metrics.inspection.event_facts import EventRef, EventReport, Link
from ccltui.metrics.inspection.event_report import event_of_member, inspect_event
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

GEMM = "ampere_bf16_s16816gemm_bf16_128x128"
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)"
BASE_NS = 1_700_000_000_000_000_000
BEHIND_US = 5_000
"""How far the clock of rank 1 is ahead of that of rank 0."""


def event(cat: str, name: str, ts: float, dur: float, **more: Any) -> dict[str, Any]:
    """One complete event; ``tid`` and ``args`` by keyword."""
    tid = more.pop("tid", 7)
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": tid, "ts": ts, "dur": dur, **more}


def kernel(name: str, ts: float, dur: float, correlation: int, **args: Any) -> dict[str, Any]:
    """One kernel on stream 7 of device 0."""
    stated = {"device": 0, "stream": 7, "correlation": correlation, **args}
    return event("kernel", name, ts, dur, args=stated)


def rank_events(rank: int) -> list[dict[str, Any]]:
    """Four steps: a product with everything recorded, then an all-reduce; rank 1 is 30 us late."""
    ahead, events = BEHIND_US * rank, []
    for step in range(4):
        at = 1_000 + 1_000 * step + ahead
        late = 30 * rank
        launch = {"correlation": 10 + step}
        events += [
            event("user_annotation", "forward", at, 200, tid=1),
            event("python_function", "train.py(12): step", at + 1, 150, tid=1),
            event("python_function", "nn.Module: Linear_0", at + 2, 120, tid=1),
            event("python_function", "layer.py(7): forward", at + 3, 110, tid=1),
            event("cpu_op", "aten::linear", at + 4, 60, tid=1),
            event(
                "cpu_op",
                "aten::mm",
                at + 5,
                50,
                tid=1,
                args={
                    "Input Dims": [[64, 128], [128, 256]],
                    "Input type": ["c10::BFloat16", "c10::BFloat16"],
                    "External id": 100 + step,
                },
            ),
            event("cuda_runtime", "cudaLaunchKernel", at + 20, 4, tid=1, args=launch),
            kernel(
                GEMM,
                at + 40.5,
                80,
                10 + step,
                grid=[12, 2, 1],
                block=[128, 1, 1],
                **{
                    "registers per thread": 96,
                    "shared memory": 4096,
                    "est. achieved occupancy %": 31,
                    "warps per SM": 0.5,
                },
            ),
            event(
                "cuda_runtime",
                "cudaLaunchKernel",
                at + 130,
                4,
                tid=1,
                args={"correlation": 50 + step},
            ),
            kernel(
                REDUCE,
                at + 200 + late,
                100 - late,
                50 + step,
                **{
                    "Collective name": "allreduce",
                    "In msg nelems": 1000,
                    "Out msg nelems": 1000,
                    "dtype": "BFloat16",
                    "Group size": 2,
                    "Process Group Name": "0",
                    "Process Group Ranks": "[0, 1]",
                    "Seq": step,
                },
            ),
            kernel("orphan", at + 400, 10, 900 + step),
        ]
    return events


def write_job(directory: Path, *, compressed: bool = False) -> Path:
    """Two ranks whose clocks differ by `BEHIND_US`."""
    for rank in (0, 1):
        data = {
            "distributedInfo": {"rank": rank, "world_size": 2, "backend": "nccl"},
            "baseTimeNanoseconds": BASE_NS,
            "traceEvents": rank_events(rank),
        }
        text = json.dumps(data).encode()
        name = f"rank{rank}.json" + (".gz" if compressed else "")
        (directory / name).write_bytes(gzip.compress(text) if compressed else text)
    return directory


@pytest.fixture
def view(tmp_path: Path) -> View:
    return View(open_job(write_job(tmp_path)))


def row_of(view: View, rank: str, name: str, number: int = 0) -> EventRef:
    """The event of ``gpu`` of a name, by its place among those of that name."""
    trace = view.facts.ranks[rank].trace
    gpu = trace.group("gpu")
    rows = [row for row in range(len(gpu)) if trace.text(int(gpu.name[row])) == name]
    return EventRef(rank, "gpu", rows[number])


def values(report: EventReport) -> dict[str, Any]:
    """Values of the facts by name."""
    return {fact.name: fact.value for fact in report.facts}


def links(report: EventReport, relation: str) -> list[Link]:
    return [link for link in report.links if link.relation == relation]


@pytest.mark.parametrize("compressed", [False, True])
def test_a_kernel_has_its_launch_operator_ranges_and_stack(
    tmp_path: Path, compressed: bool
) -> None:
    view = View(open_job(write_job(tmp_path, compressed=compressed)))
    report = inspect_event(view, row_of(view, "0", GEMM, 1))

    known = values(report)
    assert report.name == GEMM
    assert (report.start_ns, report.dur_ns) == (1_040_500, 80_000)
    assert known["kind"] == "kernel"
    assert (known["stream"], known["device"], known["correlation"]) == (7, 0, 11)
    assert (known["grid"], known["block"]) == ("12x2x1", "128x1x1")
    assert (known["registers per thread"], known["shared memory per block"]) == (96, 4096)
    assert known["occupancy estimate"] == 31
    assert known["launch call"] == "cudaLaunchKernel"
    assert (known["launch start"], known["launch duration"]) == (1_020_000, 4_000)
    assert known["queue delay"] == 16_500  # 1040.5 - 1024 us
    assert known["operator"] == "aten::mm"
    assert known["operators around it"] == "aten::linear > aten::mm"
    assert json.loads(known["input shapes"]) == [[64, 128], [128, 256]]
    assert json.loads(known["input types"]) == ["c10::BFloat16", "c10::BFloat16"]
    assert known["ranges and modules"] == "forward > Linear_0"
    assert known["Python stack"] == ("layer.py(7): forward", "train.py(12): step")
    assert known["warps per SM"] == "0.5"
    assert "collective" not in known
    (launch,), (operator,) = links(report, "launch"), links(report, "operator")
    assert (launch.event.group, operator.event.group) == ("runtime", "cpu_ops")
    before, after = links(report, "previous")[0], links(report, "next")[0]
    assert (before.event, before.note) == (row_of(view, "0", GEMM, 0), "1 of 4 of this name")
    assert (after.event, after.note) == (row_of(view, "0", GEMM, 2), "3 of 4 of this name")


def test_what_is_not_recorded_is_absent_with_its_reason(view: View) -> None:
    report = inspect_event(view, row_of(view, "1", "orphan"))

    for name in ("grid", "block", "registers per thread", "occupancy estimate", "queue delay"):
        fact = report.fact(name)
        assert fact is not None
        assert fact.value is None
        assert fact.why
    launch = report.fact("launch call")
    assert launch is not None
    assert launch.why == "no call with correlation id 900 was recorded"
    assert not links(report, "launch")
    assert len(links(report, "previous")) == 0


def test_a_collective_has_its_arguments_and_its_peers(view: View) -> None:
    report = inspect_event(view, row_of(view, "1", REDUCE, 2))

    known = values(report)
    assert known["collective"] == "AllReduce"
    assert (known["message size"], known["data type"]) == (2000, "BFloat16")
    assert (known["sequence number"], known["members"]) == (2, "0, 1")
    assert (known["peers"], known["confidence of the match"]) == (1, "high")
    assert (known["arrived after the first"], known["waited for the last"]) == (30_000, 0)
    (peer,) = links(report, "peer")
    assert peer.event == row_of(view, "0", REDUCE, 2)
    assert peer.note == "arrived first"
    # On the corrected clock rank 1 arrived 30 us after rank 0, whatever its own clock says.
    assert report.start_ns - peer.start_ns == pytest.approx(30_000, abs=1_000)


def test_links_lead_to_the_call_and_the_operator_and_back(view: View) -> None:
    report = inspect_event(view, row_of(view, "0", GEMM))
    launch = inspect_event(view, links(report, "launch")[0].event)
    operator = inspect_event(view, links(report, "operator")[0].event)

    assert values(launch)["operator"] == "aten::mm"
    assert links(launch, "device work")[0].event == report.event
    assert operator.name == "aten::mm"
    assert links(operator, "device work")[0].note == "first of 1 launched, 80 us together"
    assert inspect_event(view, links(operator, "operator around it")[0].event).name == (
        "aten::linear"
    )


def test_a_cell_of_alignment_is_the_event_of_its_rank(view: View) -> None:
    number = next(i for i, group in enumerate(view.arrivals.groups) if len(group.match.rows))

    assert event_of_member(view, number, 3, "1") == row_of(view, "1", REDUCE, 3)
    with pytest.raises(IndexError):
        event_of_member(view, number, 3, "7")


def test_a_file_that_changed_gives_the_reason(tmp_path: Path) -> None:
    view = View(open_job(write_job(tmp_path)))
    (tmp_path / "rank0.json").write_text("{}")
    report = inspect_event(view, row_of(view, "0", GEMM))

    grid = report.fact("grid")
    assert grid is not None
    assert grid.value is None
    assert "not found" in grid.why
    assert values(report)["queue delay"] == 16_500  # columns stay


def test_without_the_file_nothing_is_opened(tmp_path: Path) -> None:
    view = View(open_job(write_job(tmp_path)))
    (tmp_path / "rank0.json").unlink()
    report = inspect_event(view, row_of(view, "0", GEMM), with_file=False)

    assert not report.is_complete
    assert report.fact("grid").why == "being read from the file"  # type: ignore[union-attr]


def test_no_such_event_is_an_error(view: View) -> None:
    with pytest.raises(IndexError):
        inspect_event(view, EventRef("0", "gpu", 10_000))
    with pytest.raises(KeyError):
        inspect_event(view, EventRef("9", "gpu", 0))
    with pytest.raises(KeyError):
        EventRef.of("0", "nothing", 0)


def test_the_document_is_json(view: View) -> None:
    document = inspect_event(view, row_of(view, "0", GEMM)).document()

    assert json.loads(json.dumps(document)) == document
    assert document["rank"] == "0"
    assert not any(isinstance(fact["value"], np.generic) for fact in document["facts"])


def test_a_transfer_leads_to_its_other_side(tmp_path: Path) -> None:
    for rank in (0, 1):
        events = []
        for step in range(3):
            at = 1_000 * (step + 1)
            stated = {
                "Collective name": "recv" if rank else "send",
                "In msg nelems": 64,
                "Out msg nelems": 64,
                "dtype": "Float",
                "Group size": 2,
                "Process Group Name": "1",
                "Process Group Ranks": "[0, 1]",
                "Src Rank": 0,
                "Dst Rank": 1,
            }
            name = "ncclDevKernel_SendRecv(ncclDevComm*)"
            events.append(kernel(name, at + 40 * rank, 100 - 40 * rank, step + 1, **stated))
        data = {
            "distributedInfo": {"rank": rank, "world_size": 2, "backend": "nccl"},
            "traceEvents": events,
        }
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(data))
    view = View(open_job(tmp_path))

    report = inspect_event(view, EventRef("0", "gpu", 1))

    (peer,) = links(report, "peer")
    assert peer.event == EventRef("1", "gpu", 1)
    assert peer.note.startswith("began ")
    assert (values(report)["collective"], values(report)["peers"]) == ("Send", 1)
    assert links(inspect_event(view, peer.event), "peer")[0].event == EventRef("0", "gpu", 1)
