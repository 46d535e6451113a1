"""Findings on the output of ``nsys analyze``: each row of a rule is an event."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs_by_hand import view_of

from ccltui.metrics.catalog.time.findings import answer_of
from ccltui.metrics.findings.finding import Answer
from ccltui.parsers.nsys.stats_text import parse_stats_text

_RULES = "/opt/nvidia/nsight-systems/2025.3.2/host-linux-x64/rules"
NONE = f"""\
Processing [report1.sqlite] with [{_RULES}/cuda_memcpy_async.py]...

 ** CUDA Async Memcpy with Pageable Memory (cuda_memcpy_async):

There were no problems detected related to memcpy operations using pageable
memory.

Processing [report1.sqlite] with [{_RULES}/cuda_memset_sync.py]...
SKIPPED: report1.sqlite could not be analyzed because it does not contain the required CUDA data. \
Does the application use CUDA memset APIs?
"""
# The copies overlap by 500,000 ns; the column of green contexts is blank.
COPIES = f"""\
Processing [report1.sqlite] with [{_RULES}/cuda_memcpy_sync.py]...

 ** CUDA Synchronous Memcpy (cuda_memcpy_sync):

The following are synchronous memory transfers that block the host. This does
not include host to device transfers of a memory block of 64 KB or less.

Suggestion: Use cudaMemcpy*Async() APIs instead.

 Duration (ns)  Start (ns)   Src Kind  Dst Kind  Bytes (MB)     PID     Device ID  Context ID  \
Green Context ID  Stream ID      API Name
 -------------  -----------  --------  --------  ----------  ---------  ---------  ----------  \
----------------  ---------  ----------------
     2,000,000  360,000,000  Device    Pageable       4.194  1,373,105          0           1  \
                          7  cudaMemcpy_v3020
     1,500,000  361,500,000  Pageable  Device         4.194  1,373,105          0           1  \
                          7  cudaMemcpy_v3020
"""
CALL = f"""\
Processing [report1.sqlite] with [{_RULES}/cuda_api_sync.py]...

 ** CUDA Synchronization APIs (cuda_api_sync):

 Duration (ns)  Start (ns)       PID       TID           API Name
 -------------  -----------  ---------  ---------  ---------------------------
     2,645,612  357,826,729  1,373,105  1,373,105  cudaDeviceSynchronize_v3020
"""
GAPS = """\
Row#,Duration (ns),Start (ns),PID,Device ID,Context ID
1,812345678,1360484139,1373105,0,1
2,600000000,9360484139,1373105,0,1
"""
UTIL = """\
Row#,In-Use (%),Duration (ns),Start (ns),PID,Device ID,Context ID
1,12.4,201484139,360484139,1373105,0,1
"""


def answer(tmp_path: Path, text: str, name: str = "analyze.txt") -> Answer:
    (tmp_path / name).write_text(text)
    return answer_of(view_of(tmp_path))


@pytest.mark.parametrize(
    ("text", "name", "sentence", "kind"),
    [
        (COPIES, "a.txt", "2 synchronous copies block the host for 3 ms in all (nsys analyze).",
         "copies"),
        (CALL, "a.txt", "1 synchronising call blocks the host for 2.65 ms (nsys analyze).",
         "host_synchronisation"),
        (GAPS, "a.csv", "2 gaps of the device last 1.41 s in all (nsys analyze).", "idle_unknown"),
        (UTIL, "a.csv", "1 stretch in which the device is little used lasts 201 ms (nsys analyze).",
         "idle_unknown"),
        (NONE, "a.txt", "1 rule of nsys analyze found no problem.", "nothing"),
        (NONE.partition("memory.\n")[2], "a.txt",
         "The rules of nsys analyze had no data to look at.", "nothing"),
    ],
    ids=["copies", "call", "gaps", "use", "no problem", "no data"],
)  # fmt: skip
def test_the_first_sentence(tmp_path: Path, text: str, name: str, sentence: str, kind: str) -> None:
    found = answer(tmp_path, text, name).findings[0]

    assert (found.text, found.kind) == (sentence, kind)


def test_times_that_overlap_count_once(tmp_path: Path) -> None:
    (found,) = answer(tmp_path, COPIES).findings

    assert found.cost_ms == 3.0
    assert found.more == (
        "The longest (cudaMemcpy_v3020) takes 2 ms and begins 360 ms after the start of the "
        "recording."
    )


def test_rules_are_listed_by_their_time(tmp_path: Path) -> None:
    found = answer(tmp_path, NONE + COPIES + CALL).findings

    assert [one.kind for one in found] == ["copies", "host_synchronisation"]


def test_rules_follow_the_totals_of_the_same_text(tmp_path: Path) -> None:
    kernels = "Time (%),Total Time (ns),Instances,Avg (ns),Name\n100.0,1000,1,1000.0,gemm\n"

    found = answer(tmp_path, f"{CALL}\n{kernels}").findings

    assert [one.kind for one in found] == ["kernel_totals", "host_synchronisation"]


def test_a_row_whose_blanks_were_changed_lacks_the_blank_cell() -> None:
    section = parse_stats_text(COPIES.replace("                          7", "    7")).tables[0]

    assert section.number("Stream ID").mantissa.tolist() == [7, 7]
    assert section.text("API Name").values == ("cudaMemcpy_v3020",) * 2


def test_rows_without_a_time_are_no_events(tmp_path: Path) -> None:
    text = GAPS.replace("812345678,1360484139", ",").replace("600000000", "-5")

    assert answer(tmp_path, text, "a.csv").findings[0].kind == "nothing"
