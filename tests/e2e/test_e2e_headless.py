"""``ccltui DIR --metric …`` as scripts and CI see it: lists, numbers, selections, gates."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from pathlib import Path

import pytest
from shell import CCLTUI, MODULE
from warm_shell import run

SEED = [
    "coll_call_num",
    "throughput_tokens",
    "iter_time",
    "comm_comp_overlap",
    "pipeline_bubble",
    "traffic_distribution",
    "straggler_lag",
]


def test_the_list_of_metrics_has_name_unit_needs_and_definition() -> None:
    done = run(CCLTUI, "--list-metrics")

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    heads = [line.split() for line in lines if not line.startswith(" ")]
    assert [name for name, *_ in heads][:7] == SEED
    assert all(unit[0].startswith("[") and unit[-1].endswith("]") for _, *unit in heads)
    assert sum(line.startswith("    Needs: ") for line in lines) == len(heads)
    assert any(line.startswith("    --set materiality_pct=") for line in lines)
    assert max(map(len, lines)) <= 100


def test_headless_runs_import_no_screen(job: Path) -> None:
    for arguments in (["--list-metrics"], [str(job), "--metric", "all"], ["doctor", str(job)]):
        code = (
            "import sys; sys.argv[1:] = sys.argv[1:]; from ccltui.__main__ import main; main(); "
            "heavy = {m.split('.')[0] for m in sys.modules} & {'textual', 'rich'}; "
            "print('heavy:', sorted(heavy), file=sys.stderr)"
        )
        done = run([MODULE[0], "-c", code], *arguments)
        assert done.stderr.splitlines()[-1] == "heavy: []"


def test_a_metric_of_a_stored_job_imports_little(job: Path) -> None:
    """Each of these costs 1 to 10 of 250 ms, and none is used."""
    unused = {"numpy.ma", "statistics", "fractions", "csv", "json", "textual", "rich"}
    unused |= {"multiprocessing", "ccltui.parsers.text.plain_pickle"}
    code = (
        "import sys; from ccltui.__main__ import main; main(); "
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    for _ in range(2):  # the second time from the store
        done = run([MODULE[0], "-c", code], job, "--metric", "straggler_lag")
        assert done.returncode == 0, done.stderr

    modules = set(done.stderr.splitlines()[-1].split())
    assert "ccltui.metrics.catalog.stragglers.straggler_lag" in modules
    assert modules & unused == set()


def test_the_version_is_printed_without_the_parser_of_all_options() -> None:
    """Python itself takes most of the 50 ms that are allowed."""
    code = (
        "import sys; from ccltui.__main__ import main; status = main(); "
        "print(status, *sorted(sys.modules), file=sys.stderr)"
    )

    done = run([MODULE[0], "-c", code], "--version")

    status, *modules = done.stderr.split()
    assert (status, done.stdout) == ("0", run(CCLTUI, "--debug", "--version").stdout)
    heavy = {
        "argparse",
        "dataclasses",
        "inspect",
        "ccltui.cli",
        "ccltui.splash",
        "numpy",
        "msgspec",
    }
    assert heavy.isdisjoint(modules)


def test_what_is_registered_for_the_exit_runs_though_the_command_exits_at_once() -> None:
    code = (
        "import atexit, sys; from ccltui.__main__ import run_ccltui; "
        "atexit.register(print, 'registered'); run_ccltui(); print('not reached')"
    )

    done = subprocess.run(
        [MODULE[0], "-c", code, "--metric"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (2, "registered\n")


def test_a_profiler_writes_its_file_after_the_command(tmp_path: Path) -> None:
    file = tmp_path / "profile"

    subprocess.run(
        [MODULE[0], "-m", "cProfile", "-o", file, "-m", "ccltui", "--version"],
        capture_output=True,
        check=True,
    )

    assert file.stat().st_size > 0


def test_every_metric_of_a_job(job: Path) -> None:
    done = run(CCLTUI, job, "--metric", "all", "--format", "json")

    document = json.loads(done.stdout)
    assert document["schema_version"] == 1
    assert document["trace"]["ranks"] == document["trace"]["world_size"] == 4
    assert document["trace"]["sources"] == ["kineto"]
    assert document["window"] is None
    assert [entry["metric"] for entry in document["results"]][:7] == SEED
    assert done.returncode == 0
    for entry in document["results"]:
        assert entry["details"]["metric"] == entry["metric"]
        assert (entry["value"] is None) == (entry["status"] == "unavailable")


def test_aliases_and_repetitions_are_one_metric(job: Path) -> None:
    done = run(CCLTUI, "--metric", "iter_time_16", job, "--metric=iter_time", "--format", "jsonl")

    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["metric"] == "iter_time"


def test_a_file_is_a_directory_of_one(job: Path) -> None:
    done = run(CCLTUI, next(job.glob("kineto_trace_2*")), "--metric=iter_time", "--format=csv")

    assert done.returncode == 0, done.stderr
    header, headline, *_ = csv.reader(io.StringIO(done.stdout))
    assert header == ["metric", "key", "value", "unit", "status", "reason"]
    assert headline[:2] == ["iter_time", "avg_iter_time_ms"]
    assert headline[4] == "partial"  # three ranks of the world are not there


def test_detail_adds_rows_per_rank(job: Path) -> None:
    arguments = (CCLTUI, job, "--metric", "iter_time", "--format", "csv")

    brief, full = run(*arguments), run(*arguments, "--detail")

    assert ",per_rank.0." not in brief.stdout
    assert ",per_rank.3." in full.stdout
    assert set(brief.stdout.splitlines()) < set(full.stdout.splitlines())


def test_the_cost_of_each_fact_is_explained(job: Path) -> None:
    arguments = (CCLTUI, job, "--metric", "coll_call_num", "--metric", "straggler_lag")

    plain, explained = run(*arguments), run(*arguments, "--explain-cost")

    assert plain.stdout == explained.stdout
    head, *rows = [line.split() for line in explained.stderr.splitlines()]
    assert head[:6] == ["metric", "fact", "CPU", "s", "wall", "s"]
    order = [(metric, fact) for metric, fact, *_ in rows]
    assert order.index(("coll_call_num", "calls")) < order.index(("coll_call_num", "-"))
    assert order.index(("straggler_lag", "clocks")) < order.index(("straggler_lag", "roots"))
    assert ("coll_call_num", "matches") not in order
    assert ("straggler_lag", "calls") not in order  # they were there
    assert all(float(seconds) >= 0 for row in rows for seconds in row[2:4])


def test_a_selection_is_echoed(job: Path) -> None:
    done = run(
        CCLTUI,
        job,
        *("--metric", "coll_call_num", "--format", "json"),
        *("--window", "1ms/2s", "--steps", "10-11", "--ranks", "0-1,3", "--raw-clocks"),
    )

    document = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    assert document["window"] == {
        "text": "1ms/2s",
        "start_ns": 1_000_000,
        "end_ns": 2_000_000_000,
    }
    assert document["selection"]["steps"] == "10-11"
    assert document["selection"]["ranks"] == "0-1,3"
    assert document["selection"]["raw_clocks"] is True
    everything = run(CCLTUI, job, "--metric", "coll_call_num", "--format", "json")
    whole = json.loads(everything.stdout)["results"][0]["value"]
    assert 0 < document["results"][0]["value"] < whole


def test_fields_of_the_card_and_parameters_are_set_on_the_command_line(one_rank: Path) -> None:
    stated = ("batch_size=2", "seq_len=2048", "dp_replicate=1", "dp_shard=1", "tp=1", "pp=4")
    options = [f"--set={text}" for text in (*stated, "compute_set = named")]
    names = ("--metric=throughput_tokens", "--metric=comm_comp_overlap", "--format=json")

    done = run(CCLTUI, one_rank, *names, *options)

    document = json.loads(done.stdout)
    throughput, overlap = (entry["details"] for entry in document["results"])
    assert (done.returncode, throughput["tokens_per_step"]) == (0, 4096)
    assert throughput["provenance"]["batch_size"] == "override"
    assert overlap["compute_set"] == "named"
    assert document["selection"]["overrides"]["pp"] == "4"


def test_what_is_measured_is_chosen_on_the_command_line(job: Path) -> None:
    arguments = (CCLTUI, job, "--metric", "iter_time", "--format", "json")

    def steps(*span: str) -> list[int]:
        document = json.loads(run(*arguments, *span).stdout)
        return list(document["results"][0]["details"]["inputs"]["steps"])

    assert len(steps()) == 3
    assert steps("--span", "inner") == steps()[1:-1]


def test_a_refusal_is_3_and_the_rest_is_printed(one_rank: Path) -> None:
    done = run(
        CCLTUI, one_rank, "--metric", "straggler_lag", "--metric", "iter_time", "--format", "csv"
    )

    assert done.returncode == 3
    rows = list(csv.reader(io.StringIO(done.stdout)))
    assert rows[1][:5] == ["straggler_lag", "mean_lag_us", "", "us", "unavailable"]
    assert rows[1][5].startswith("single_rank: ")
    assert rows[2][0] == "iter_time"
    assert float(rows[2][2]) > 0
    assert "straggler_lag is unavailable: " in done.stderr


@pytest.mark.parametrize(
    ("gates", "status", "words"),
    [
        (["iter_time < 0"], 0, ""),
        (["iter_time > 0"], 4, "gate tripped: iter_time > 0"),
        (["iter_time.max_iter_time_ms >= 1e-3", "iter_time < 0"], 4, "gate tripped"),
        (["iter_time.per_rank.0.n == 3"], 4, "gate tripped"),
        (["straggler_lag > 500"], 3, "gate not decided: straggler_lag > 500"),
        (["iter_time.nothing > 1"], 3, "iter_time has no nothing; it has avg_iter_time_ms"),
        (["straggler_lag > 500", "iter_time > 0"], 4, "gate tripped"),
    ],
)
def test_gates_decide_the_status(one_rank: Path, gates: list[str], status: int, words: str) -> None:
    options = [part for gate in gates for part in ("--fail-if", gate)]

    done = run(CCLTUI, one_rank, *options)

    assert done.returncode == status, done.stderr
    assert words in done.stderr
    assert "iter_time" in done.stdout or "straggler_lag" in done.stdout


def test_all_asks_for_what_the_traces_can_tell(job: Path) -> None:
    everything = run(CCLTUI, job, "--metric", "all", "--format", "csv")
    named = run(CCLTUI, job, "--metric", "all", "--metric", "ttft", "--format", "csv")

    assert ",unavailable," in everything.stdout
    assert (everything.returncode, named.returncode) == (0, 3)
