"""DeepSpeed: its step lines, and its summary of communication with and without stragglers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.runs.run_records import CommsRow, read_comms_summary
from ccltui.parsers.runs.training_log import read_training_log

LOGGER = "[2026-02-02 10:00:09,000] [INFO] [utils.py] "
PLAIN = """\
Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     tput_avg (Gbps)     busbw_avg (Gbps)    
all_reduce
                    64.0 MB             120                 640.20              5.33                100.72              188.85
                    1.5 KB              3                   0.9                 0.3                 0.01                0.02
all_gather_into_tensor
                    12.5 MB             240                 411.02              1.71                61.32               57.49
"""  # noqa: E501, W291
STRAGGLERS = """\

_______________________________
Breakdown with straggler effect
-------------------------------
Comm. Op            Message Size        Count               Total comm lat(ms)  Total straggler(ms) Avg comm lat(ms)    Avg straggler(ms)
all_reduce
                    64.0 MB             120                 402.20              238.00              3.35                1.98
                    1.5 KB              3                   0.8                 0.1                 0.3                 0.0
all_gather_into_tensor
                    12.5 MB             240                 400.02              11.00               1.67                0.05
"""  # noqa: E501


def read(tmp_path: Path, text: str) -> dict[tuple[str, str], CommsRow]:
    path = tmp_path / "train.log"
    path.write_text(text)
    return {(row.operation, row.size): row for row in read_comms_summary(path, shown="train.log")}


@pytest.mark.parametrize("prefix", ["", "0: ", "[1,0]<stdout>:", "node1: ", "[rank0]: "])
@pytest.mark.parametrize("logger", ["", LOGGER])
def test_both_tables_by_their_headers(tmp_path: Path, prefix: str, logger: str) -> None:
    text = f"{logger}{PLAIN}{STRAGGLERS}"

    rows = read(tmp_path, "".join(f"{prefix}{line}\n" for line in text.split("\n")))

    first = rows["all_reduce", "64.0 MB"]
    assert (first.count, first.total_ms, first.waited_ms) == (120, 640.2, 238.0)
    assert (first.rate_gbps, first.busbw_gbps) == (100.72, 188.85)
    assert rows["all_reduce", "1.5 KB"].waited_ms == 0.1
    assert rows["all_gather_into_tensor", "12.5 MB"].waited_ms == 11.0
    assert len(rows) == 3
    assert [file.kind for file in discover(tmp_path).files] == ["training_log"]


@pytest.mark.parametrize("prefix", ["{0}: ", "[1,{0}]<stdout>:", "[rank{0}]: ", "job/{0} "])
def test_tables_of_two_ranks_line_by_line(tmp_path: Path, prefix: str) -> None:
    """Each rank printed its own: those of the first are its rows, whatever the other prints."""
    other = PLAIN.replace("640.20", "999.99")
    pairs = zip(PLAIN.splitlines(), other.splitlines(), strict=True)
    text = "".join(
        f"{prefix.format(rank)}{line}\n"
        for pair in pairs
        for rank, line in zip((3, 5), pair, strict=True)
    )

    rows = read(tmp_path, text)

    assert [row.total_ms for row in rows.values()] == [640.2, 0.9, 411.02]


def test_without_the_effect_of_stragglers(tmp_path: Path) -> None:
    assert math.isnan(read(tmp_path, LOGGER + PLAIN)["all_reduce", "64.0 MB"].waited_ms)


def test_the_last_summary_counts(tmp_path: Path) -> None:
    later = PLAIN.replace("640.20", "999.00")

    rows = read(tmp_path, PLAIN + STRAGGLERS + "a line of training\n" + later)

    assert rows["all_reduce", "64.0 MB"].total_ms == 999.0
    assert math.isnan(rows["all_reduce", "64.0 MB"].waited_ms)


def test_columns_in_another_order(tmp_path: Path) -> None:
    text = (
        "Comm. Op   Message Size   Count   New (x)   Avg Latency(ms)   Total Latency(ms)\n"
        "broadcast\n           4 B   7   5.0   1.0   7.5\n"
    )

    assert read(tmp_path, text)["broadcast", "4 B"].total_ms == 7.5


@pytest.mark.parametrize(
    "text", ["", "Comm. Op\n", PLAIN.partition("\n")[0], "all_reduce\n  64 MB  1\n"]
)
def test_other_texts_have_no_rows(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == {}


@pytest.mark.parametrize("prefix", ["", "{0}: ", "[1,{0}]<stdout>:"])
def test_step_lines_of_deepspeed(tmp_path: Path, prefix: str) -> None:
    lines = [
        f"{prefix.format(rank)}[2026-02-02 10:00:{step:02},000] [INFO] [timer.py:264:stop] "
        f"epoch=0/micro_step={step}/global_step={step}, RunningAvgSamplesPerSec=41.2, "
        f"CurrSamplesPerSec=40.9, MemAllocated=12.1GB, MaxMemAllocated={30 + rank}.5GB"
        for step in (10, 20, 30)
        for rank in (0, 1)
    ]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")

    log = read_training_log(tmp_path / "train.log", shown="train.log")

    assert (log.dialect, log.step.tolist()) == ("deepspeed", [10, 20, 30])
    assert log.time_s[1:].tolist() == [1.0, 1.0]
    assert log.memory_gib.tolist() == [30.5] * 3
    assert [note.code for note in log.notes] == []


@pytest.mark.parametrize("prefix", ["", "{0}: ", "[1,{0}]<stdout>:", "[default{0}]:"])
@pytest.mark.parametrize("total", ["60", "infinity"])
def test_step_lines_of_megatron(tmp_path: Path, prefix: str, total: str) -> None:
    lines = [
        f"{prefix.format(0)} [2026-01-06 03:20:07] iteration {step:>8}/{total:>8} | elapsed time "
        f"per iteration (ms): {2000 + step} | lm loss: 8.{step}E+00 |"
        for step in (10, 20, 30)
    ]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")

    log = read_training_log(tmp_path / "train.log", shown="train.log")

    assert [file.kind for file in discover(tmp_path).files] == ["training_log"]
    assert (log.step.tolist(), log.total_steps) == ([10, 20, 30], 60 if total == "60" else None)
    assert log.time_s.tolist() == [2.01, 2.02, 2.03]
