"""What a GPT-2 run writes, without the training: records, and the summary of a profile."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ccltui.parsers.nsys.stats_text import read_stats_text
from ccltui.parsers.runs.run_records import read_completion
from gpt2_run import records
from gpt2_run.stats_tables import read_tables
from gpt2_run.summary import Summary, top_of

FOLDER = Path(__file__).resolve().parents[2] / "sbatch" / "gpt2_deepspeed"
EPOCH = records.Epoch(
    number=1,
    wall_s=2.0,
    micro_steps=4,
    optimizer_steps=2,
    tokens=4096,
    train_loss=8.0,
    val_loss=None,
    step_times_s=[0.4, 0.5, 0.6, 0.5],
    dataload_times_s=[0.01, 0.03],
    allocated_bytes=None,
    reserved_bytes=None,
)
STATS = """
 ** NVTX Range Summary (nvtx_sum):

 Time (%)  Total Time (ns)  Instances    Avg (ns)     Med (ns)    Min (ns)   Max (ns)   StdDev (ns)  Style                 Range
 --------  ---------------  ---------  ------------  ----------  ---------  ---------  -----------  -------  -----------------------------------
     16.8       12,000,000         80     150,000.0   150,000.0    100,000    200,000        100.0  PushPop  :DeepSpeedEngine.allreduce_gradients
     53.9       40,000,000         80     500,000.0   500,000.0    100,000    900,000        100.0  PushPop  :DeepSpeedEngine.backward

"""  # noqa: E501  (as nsys prints it)


def test_step_times_are_those_of_every_step() -> None:
    told = EPOCH.document()

    assert told["step_time_num_samples"] == told["micro_steps"] == 4
    assert told["step_time_sampling"] == "all"
    assert told["step_time_mean_sec"] * 4 == pytest.approx(told["epoch_wall_time_sec"])
    assert told["step_time_p50_sec"] == pytest.approx(0.5)
    assert told["tokens_per_sec_global"] == 2048.0
    assert told["val_loss_avg_global"] is None


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (0.5, 2.5), (0.95, 3.85), (1.0, 4.0)])
def test_quantiles_lie_between_two_values(share: float, expected: float) -> None:
    assert records.quantile([1.0, 2.0, 3.0, 4.0], share) == pytest.approx(expected)


def test_steps_are_on_the_disk_before_the_run_ends(tmp_path: Path) -> None:
    path = tmp_path / "training_steps.jsonl"
    log = records.StepLog(path)

    log.add(
        [records.Step(1, 10.9, 0.05, 8192, 1, False), records.Step(2, 10.8, 0.04, 8192, 1, True)]
    )

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    log.close()
    assert [(line["step"], line["optimizer_step"]) for line in lines] == [(1, False), (2, True)]
    assert lines[0] == {
        "step": 1,
        "loss": 10.9,
        "step_time_sec": 0.05,
        "tokens": 8192,
        "epoch": 1,
        "optimizer_step": False,
    }


def test_other_ranks_write_no_steps(tmp_path: Path) -> None:
    log = records.StepLog(None)
    log.add([records.Step(1, 10.9, 0.05, 8192, 1, False)])
    log.close()

    assert list(tmp_path.iterdir()) == []


def test_the_longest_ranges_lead_and_nested_shares_are_not_added(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(STATS)
    top = top_of(read_tables(tmp_path / "a.txt"))
    metrics = {"hardware": {"world_size": 8}, "env": None}

    told = Summary(Path("run"), {"nsys_stats_node1.txt": top}, [], metrics).document()

    assert [(one["name"], one["time_percent"], one["total_time"]) for one in told["nvtx_top5"]] == [
        (":DeepSpeedEngine.backward", 53.9, "40000000 ns"),
        (":DeepSpeedEngine.allreduce_gradients", 16.8, "12000000 ns"),
    ]
    assert told["osrt_top5"] == []
    assert told["likely_bottleneck"] == {
        "allreduce_gradients_over_20pct": False,
        "matched": {
            "name": ":DeepSpeedEngine.allreduce_gradients",
            "time_percent": 16.8,
            "total_time": "12000000 ns",
        },
    }
    assert (told["hosts"], told["world_size"], told["torch"]) == (["node1"], 8, None)


def summarised(run_dir: Path) -> subprocess.CompletedProcess[str]:
    """Run the script by a Python that finds no package besides its standard library."""
    script = FOLDER / "scripts" / "parse_nsys_stats.py"
    command = [sys.executable, "-I", "-S", str(script), "--run_dir", str(run_dir)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("printed", "unit", "ns"),
    [
        ("12,34,567", "ns", 1234567),
        ("1\u202f234\u202f567", "ns", 1234567),
        ("1.234,567", "us", 1234567),
        ("1,234.567", "us", 1234567),
        ("0.001", "s", 1000000),
    ],
)
def test_digits_are_grouped_by_any_locale(tmp_path: Path, printed: str, unit: str, ns: int) -> None:
    text = (
        f" ** OS Runtime Summary (osrt_sum):\n\n Time (%)  Total Time ({unit})  Name\n"
        f" --------  ---------------  ----\n     53,9  {printed:>15}  poll now\n\n"
    )
    (tmp_path / "a.txt").write_text(text)

    (table,) = read_tables(tmp_path / "a.txt").values()

    assert table.times_ns("Total Time") == [ns]
    assert table.shares("Time") == [53.9]
    assert table.rows[0][2] == "poll now"


def test_the_tables_are_those_of_the_full_reader(shared: Path) -> None:
    path = shared / "nsys/gpt2-deepspeed/nsys_stats_gn-0011.txt"

    plain, full = read_tables(path), read_stats_text(path)

    assert set(plain) == {section.report for section in full.tables}
    for section in full.tables:
        assert plain[section.report].times_ns("Total Time") == list(
            section.number("Total Time").ns()
        )
        assert plain[section.report].shares("Time") == list(section.number("Time").floats())


def test_a_text_without_such_tables_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    for host, text in (("a", STATS), ("b", "Time (%),Total Time (ns)\n1,2\n"), ("c", "")):
        (tmp_path / "profiles" / f"nsys_stats_{host}.txt").write_text(text)

    done = summarised(tmp_path)

    told = json.loads((tmp_path / "profiles" / "profile_summary.json").read_text())
    assert (done.returncode, told["hosts"]) == (0, ["a"])
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == [
        "nsys_stats_b.txt",
        "nsys_stats_c.txt",
    ]


def test_the_script_summarises_a_real_profile(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    text = (shared / "nsys/gpt2-deepspeed/nsys_stats_gn-0011.txt").read_bytes()
    (tmp_path / "profiles" / "nsys_stats_gn-0011.txt").write_bytes(text)

    assert summarised(tmp_path).returncode == 0

    told = json.loads((tmp_path / "profiles" / "profile_summary.json").read_text())
    assert told["nvtx_top5"][0]["total_time"] == "2765967562725 ns"
    assert told["osrt_top5"][0]["name"] == "poll"
    assert told["likely_bottleneck"]["matched"]["time_percent"] == 40.8


def test_a_run_without_a_profile_is_one_line(tmp_path: Path) -> None:
    done = summarised(tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"parse_nsys_stats: no profiles/nsys_stats_*.txt in {tmp_path}\n"


@pytest.mark.parametrize("saved", [True, False])
def test_the_mark_of_completion_names_a_checkpoint_only_where_one_is(
    tmp_path: Path, saved: bool
) -> None:
    checkpoint = tmp_path / "epoch-1" if saved else None

    line = records.complete(tmp_path, 8, 1.5, 2.0, checkpoint)

    path = tmp_path / "RUN_COMPLETE.txt"
    assert path.read_text() == line + "\n"
    assert ("checkpoint_path=" in line) == saved
    known = read_completion(path, shown="RUN_COMPLETE.txt")
    assert (known.world_size, known.tokens_per_s, known.total_wall_s) == (8, 1.5, 2.0)
