"""Events of NCCL's profiler plug-ins are recognised before Kineto takes them, and counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ccltui.metrics.catalog.time.findings import answer_of
from ccltui.metrics.view.job_view import View
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import TraceError
from ccltui.parsers.job import open_job
from ccltui.parsers.side.nccl_profiler import count_events

ARGS = {"SeqNum": 0, "CommHash": 8014878751372216337, "Rank": 1, "Count": 1024}


def event(cat: str, ph: str = "b", **more: Any) -> str:
    return json.dumps({"name": "AllReduce", "cat": cat, "ph": ph, "id": 0, "pid": 5, "tid": 1,
                       "ts": 0.5, **more})  # fmt: skip


def example(folder: Path, *lines: str) -> Path:
    path = folder / "nccl_events_0.json"
    path.write_text("[\n" + "".join(f"{line},\n" for line in lines) + "{}]\n")
    return path


@pytest.mark.parametrize("cat", ["GROUP", "COLL_API", "COLL", "P2P", "PROXY", "NET_IB", "CE_COLL"])
def test_the_plug_in_of_the_examples_is_no_kineto_trace(tmp_path: Path, cat: str) -> None:
    example(tmp_path, event(cat), event(cat, "e"))

    (found,) = discover(tmp_path).files

    assert (found.kind, found.problem) == ("nccl_profiler", None)


def test_each_event_counts_once_and_lines_that_are_cut_are_told(tmp_path: Path) -> None:
    path = example(tmp_path, event("COLL", args=ARGS), event("GPU"), event("GPU", "e"),
                   event("COLL", "e"), event("COLL")[:-9])  # fmt: skip

    found = count_events(path, shown="events.json")

    assert found.counts == {"COLL": 1, "GPU": 1}
    assert found.operations == {"AllReduce": 1}
    assert sorted(found.ranks) == [1]
    assert sorted(found.communicators) == ["8014878751372216337"]
    assert found.unread == 1


def test_addresses_and_names_without_quotes(tmp_path: Path) -> None:
    args = {"Stream": "0x2f0", "datatype": "ncclFloat32", "nranks": 2}
    bare = event("P2P", args=args).replace('"0x2f0"', "0x2f0").replace('"nccl', "nccl")
    bare = bare.replace('32"', "32")

    found = count_events(example(tmp_path, bare), shown="events.json")

    assert (found.counts, found.unread) == ({"P2P": 1}, 0)
    first = answer_of(View(open_job(tmp_path))).findings[0]
    assert first.text == "NCCL's profiler plug-in recorded 1 send or receive."


def test_a_line_without_end_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_bytes(b"[\n" + event("COLL").encode() + b",\n{" + b"9" * (3 << 20))

    assert count_events(path, shown="events.json").counts == {"COLL": 1}


def test_a_file_without_an_event_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no event of a profiler plug-in"):
        count_events(example(tmp_path, "nothing"), shown="events.json")


def test_explain_says_what_was_recorded(tmp_path: Path) -> None:
    example(tmp_path, event("COLL", args=ARGS), event("P2P"))

    first = answer_of(View(open_job(tmp_path))).findings[0]

    assert first.text == (
        "NCCL's profiler plug-in recorded 1 call of a collective and 1 send or receive on 1 rank."
    )
    assert "By operation: 1 AllReduce." in first.more


def test_a_real_file_of_lines_has_the_known_counts(shared: Path) -> None:
    path = shared / "commlogs" / "plugin" / "allreduce_single_node.jsonl"
    if not path.is_file():
        pytest.skip(f"no samples in {path}")

    found = count_events(path, shown=path.name)

    known = {"state": 138, "KernelCh": 96, "ProxyCtrl": 24, "Coll": 4, "KERNEL": 4}
    assert known.items() <= found.counts.items()
    assert found.operations == {"AllReduce": 4}
    assert sorted(found.ranks) == [0, 1, 2, 3]
    assert found.unread == 0
