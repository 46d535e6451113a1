"""The first sentence on files of other programs: what they are, not that nothing is there."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from runs_by_hand import view_of

from ccltui.metrics.catalog.time.findings import answer_of

# As ray.timeline() and `ray timeline` write it.
RAY = [
    {
        "cat": "task::forward",
        "name": "forward",
        "pid": "10.158.48.71",
        "tid": "worker:efdca41b85ecacb4f64b5a8b5d98760091baa6e27f6a4877c7052e0a",
        "ts": 1769627046285342.0,
        "dur": 79146.695,
        "ph": "X",
        "cname": "generic_work",
        "args": {"name": "forward", "task_id": "44676a208cefd2e670eb10b0e33348655a1a293501000000"},
    }
]
RAY_2 = [
    {"args": {"name": "Node 10.0.0.1"}, "cat": None, "name": "process_name", "ph": "M", "pid": 0},
    {"args": {"name": "worker:aaaa"}, "name": "thread_name", "ph": "M", "pid": 0, "tid": 0},
    {"cat": "task:execute", "name": "task:execute", "pid": 0, "tid": 0, "ts": 1769627046285342.0,
     "dur": 79146.695, "ph": "X", "cname": "rail_idle", "args": {"task_id": "44"}},
]  # fmt: skip
XPLANE = bytes.fromhex("0a3208011212") + b"/device:GPU:0 (x)" + b"\x00\x01" * 200


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        *(
            (
                "timeline.json",
                data.encode(),
                "No profiler trace found, only timeline.json: a timeline of Ray's tasks, without "
                "device events: profile the workers with torch.profiler.",
            )
            for data in (json.dumps(RAY), json.dumps(RAY, indent=2), json.dumps(RAY_2))
        ),
        (
            "host.xplane.pb",
            XPLANE,
            "No profiler trace found, only host.xplane.pb: an XLA profile in protocol buffers, "
            "which is not read: export it to trace.json.gz with the trace viewer of xprof, which "
            "keeps only the first 1,000,000 events.",
        ),
        ("notes.txt", b"requirements", "No profiler trace found, only 1 text file."),
    ],
    ids=["Ray", "Ray, indented", "Ray, newer", "XLA", "text"],
)
def test_what_the_only_file_is(tmp_path: Path, name: str, data: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(data)

    assert answer_of(view_of(tmp_path)).findings[0].text == sentence


def test_an_archive_is_to_be_unpacked(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "traces.tgz", "w:gz") as archive:
        archive.add(__file__, "notes.json")
    (finding,) = answer_of(view_of(tmp_path)).findings

    assert finding.do == "Unpack traces.tgz, and open the folder with what is in it."
