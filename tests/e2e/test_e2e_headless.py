"""``ccltui DIR --metric …`` as scripts and CI see it."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from shell import CCLTUI, MODULE, TIMEOUT_S, environment
from warm_shell import run

import ccltui

SEED = [
    "coll_call_num",
    "throughput_tokens",
    "iter_time",
    "comm_comp_overlap",
    "pipeline_bubble",
    "traffic_distribution",
    "straggler_lag",
]


def test_version() -> None:
    assert run(CCLTUI, "--version").stdout == f"ccltui {ccltui.__version__}\n"


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


def test_a_parameter_that_no_metric_of_the_run_reads_is_reported(job: Path) -> None:
    done = run(CCLTUI, job, "--metric", "iter_time", "--set", "peak_tflops=3")
    used = run(CCLTUI, job, "--metric", "mfu", "--set", "peak_tflops=3")

    assert done.returncode == 0
    assert "--set peak_tflops has no effect here: only " in done.stderr
    assert "no effect" not in used.stderr


def test_headless_runs_import_no_screen(job: Path) -> None:
    for arguments in (["--list-metrics"], [str(job), "--metric", "all"], ["doctor", str(job)]):
        code = (
            "import sys; sys.argv[1:] = sys.argv[1:]; from ccltui.__main__ import main; main(); "
            "heavy = {m.split('.')[0] for m in sys.modules} & {'textual', 'rich'}; "
            "print('heavy:', sorted(heavy), file=sys.stderr)"
        )
        done = run([MODULE[0], "-c", code], *arguments)
        assert done.stderr.splitlines()[-1] == "heavy: []"


def test_a_wrong_command_line_does_not_even_import_numpy() -> None:
    code = (
        "import sys; from ccltui.__main__ import main; main(); "
        "print('numpy' in sys.modules, file=sys.stderr)"
    )
    done = run([MODULE[0], "-c", code], "x", "--metric", "iter_time", "--window", "1s")
    assert done.stderr.splitlines()[-1] == "False"


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


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv"])
def test_a_file_and_a_redirect_hold_the_same_bytes(job: Path, tmp_path: Path, form: str) -> None:
    target = tmp_path / "report"
    arguments = (job, "--metric", "iter_time", "--format", form)

    redirected = run(CCLTUI, *arguments)
    written = run(CCLTUI, *arguments, "-o", target)

    assert (redirected.returncode, written.returncode) == (0, 0)
    assert (written.stdout, written.stderr) == ("", "")
    assert target.read_text() == redirected.stdout != ""


def test_detail_adds_rows_per_rank(job: Path) -> None:
    arguments = (CCLTUI, job, "--metric", "iter_time", "--format", "csv")

    brief, full = run(*arguments), run(*arguments, "--detail")

    assert ",per_rank.0." not in brief.stdout
    assert ",per_rank.3." in full.stdout
    assert set(brief.stdout.splitlines()) < set(full.stdout.splitlines())


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metric=iter_time", "--set", "tp"], "'tp' is not NAME=VALUE, as in tp=4"),
        (["--metric=iter_time", "--set", "dp_sard=2"], "did you mean dp_shard"),
        (["--span", "inner"], "the explorer needs a terminal"),
        ([], "the explorer needs a terminal; for numbers without one add --metric NAME"),
        (["--metric", "iter_tim"], "unknown metric 'iter_tim'; did you mean iter_time"),
        (["--format", "json"], "--format needs --metric NAME"),
        (["-o", "x"], "--output needs --metric NAME"),
        (["--metric=iter_time", "--window", "2s/1s"], "Illegal window '2s/1s': the start"),
        (["--metric=iter_time", "--ranks", "7-0"], "Illegal rank list '7-0': 7-0 counts down"),
        (["--metric=iter_time", "--steps", "a"], "Illegal steps 'a'"),
        (["--metric=iter_time", "--fail-if", "iter_time"], "Illegal condition 'iter_time'"),
        (["--metric=iter_time", "--fail-if", "nope > 1"], "unknown metric 'nope'"),
        (["--metric=iter_time", "--format", "xml"], "argument --format: 'xml' is none of table"),
        (["--metric=iter_time", "-o", "/no/such/folder/x"], "the folder /no/such/folder does not"),
        (["--metric=iter_time", "--rank-map", "x"], "x"),
        (["--metric=iter_time", "--jobs", "0"], "'0' is not a whole number above 0"),
        (["--metric=iter_time", "--metr", "x"], "unrecognized arguments: --metr"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_2(
    job: Path, arguments: list[str], message: str
) -> None:
    done = run(CCLTUI, job, *arguments)

    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_no_directory_at_all_names_the_demo() -> None:
    done = run(CCLTUI)
    assert (done.returncode, done.stdout) == (2, "")
    assert "ccltui demo" in done.stderr


@pytest.mark.parametrize("form", ["table", "csv", "json", "jsonl"])
@pytest.mark.parametrize("kind", ["absent", "empty"])
def test_nothing_to_read_is_1(tmp_path: Path, form: str, kind: str) -> None:
    directory = tmp_path / "run"
    if kind == "empty":
        directory.mkdir()

    done = run(CCLTUI, directory, "--metric", "iter_time", "--format", form)

    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    if form in ("table", "csv"):
        assert done.stdout == ""
    else:
        document = json.loads(done.stdout)
        entry = document["results"][0] if form == "json" else document
        assert (entry["status"], entry["value"], entry["reason"]) == (
            "unavailable",
            None,
            "no_trace",
        )
        assert entry["details"]["avg_iter_time_ms"] is None


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


def test_a_closed_pipe_is_quiet(job: Path) -> None:
    with subprocess.Popen(
        [*CCLTUI, str(job), "--metric", "all", "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        talk = process.stderr.read()
        assert process.wait(TIMEOUT_S) == 141
    assert "Traceback" not in talk
    assert "BrokenPipe" not in talk


def test_closed_output_is_an_error_not_a_crash(job: Path) -> None:
    command = f'exec "{CCLTUI[0]}" "{job}" --metric iter_time >&-'
    done = run(["/bin/sh", "-c", command])
    assert done.returncode == 1
    assert "standard output is closed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_one_line(job: Path, unbuffered: str) -> None:
    done = run(
        ["/bin/sh", "-c", f'exec "{CCLTUI[0]}" "{job}" --metric iter_time > /dev/full'],
        env={"PYTHONUNBUFFERED": unbuffered},
    )
    assert done.returncode == 1
    assert done.stderr == "ccltui: No space left on device\n"


def test_it_runs_without_home(job: Path, tmp_path: Path) -> None:
    env = {"HOME": None, "XDG_CACHE_HOME": None, "CCLTUI_CACHE_DIR": None, "TMPDIR": str(tmp_path)}
    # A user without an entry in the password file has no home at all.
    code = (
        "import pathlib, sys; "
        "pathlib.Path.home = classmethod(lambda cls: (_ for _ in ()).throw(RuntimeError())); "
        "from ccltui.__main__ import main; sys.exit(main())"
    )
    done = run([MODULE[0], "-c", code], job, "--metric", "iter_time", env=env)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("jobs", [(), ("--jobs", "1")], ids=["default", "one worker"])
def test_a_cache_that_cannot_be_written_only_costs_time(
    job: Path, tmp_path: Path, jobs: tuple[str, ...]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder should be")

    done = run(CCLTUI, job, "--metric=iter_time", "--cache-dir", blocked / "cache", *jobs)

    assert (done.returncode, done.stderr) == (0, "")
    assert "iter_time" in done.stdout


def test_no_cache_leaves_nothing(job: Path, tmp_path: Path) -> None:
    cache, scratch = tmp_path / "cache", tmp_path / "tmp"
    scratch.mkdir()
    env = {"CCLTUI_CACHE_DIR": str(cache), "TMPDIR": str(scratch)}

    done = run(CCLTUI, job, "--metric=iter_time", "--no-cache", env=env)

    assert done.returncode == 0, done.stderr
    assert not cache.exists()
    assert list(scratch.iterdir()) == []


def contents(directory: Path) -> list[tuple[str, int]]:
    return sorted((entry.name, entry.stat().st_mtime_ns) for entry in os.scandir(directory))


@pytest.mark.parametrize(
    "arguments",
    [
        ("{}", "--metric", "all"),
        ("doctor", "{}"),
        ("diff", "{}", "{}"),
        ("metrics-report", "{}", "--metric", "iter_time"),
        ("stats", "{}"),
        ("card", "lint", "{}"),
        ("card", "init", "{}"),
    ],
    ids=" ".join,
)
def test_the_trace_directory_is_not_written(job: Path, arguments: tuple[str, ...]) -> None:
    before = contents(job)

    run(CCLTUI, *(word.replace("{}", str(job)) for word in arguments))

    assert contents(job) == before


def test_analyse_writes_its_two_documents_beside_the_traces(job: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(job, copy)
    before = contents(copy)

    done = run(CCLTUI, "analyse", copy, "--metric", "iter_time")

    assert done.returncode == 0, done.stderr
    new = set(contents(copy)) - set(before)
    assert {name for name, _ in new} == {"metrics.json", "metrics.csv"}
    assert set(before) <= set(contents(copy))


def test_a_report_may_be_put_into_the_trace_directory(job: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    copy.mkdir()
    for entry in job.iterdir():
        (copy / entry.name).symlink_to(entry)
    arguments = (CCLTUI, copy, "--metric", "iter_time", "--format", "json")

    first = run(*arguments, "-o", copy / "metrics.json")
    again = run(*arguments)

    assert first.returncode == again.returncode == 0
    assert json.loads((copy / "metrics.json").read_text())["results"][0]["status"] == "ok"


def test_output_does_not_depend_on_the_locale(job: Path) -> None:
    plain = run(CCLTUI, job, "--metric", "all", env={"LC_ALL": "C", "PYTHONUTF8": "0"})
    wide = run(CCLTUI, job, "--metric", "all", env={"LC_ALL": "C.UTF-8", "COLUMNS": "40"})
    assert plain.stdout == wide.stdout != ""


def test_a_third_party_metric_is_listed_and_runs(job: Path, tmp_path: Path) -> None:
    (tmp_path / "fleet_metric.py").write_text(
        "from ccltui.metrics.metric import Metric\n"
        "from ccltui.metrics.result import Result\n"
        "def compute(view):\n"
        "    n = len(view.job.ranks)\n"
        "    return Result('fleet', 'ranks', 'Ranks.', 'ok', n, {'fleet_ranks': n})\n"
        "METRIC = Metric('fleet', 'ranks', 'Ranks.', ('a job',), ('fleet_ranks',), 'fleet_ranks',"
        " compute)\n"
    )
    facts = tmp_path / "fleet-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: fleet\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[ccltui.metrics]\nfleet = fleet_metric:METRIC\nbroken = no_such_module:METRIC\n"
    )
    env = environment({"PYTHONPATH": str(tmp_path)})

    listed = run(CCLTUI, "--list-metrics", env=env)
    computed = run(CCLTUI, job, "--metric", "fleet", "--fail-if", "fleet == 4", env=env)

    assert "fleet " in listed.stdout
    assert listed.stderr.startswith(
        "ccltui: metric plug-in broken of fleet 1.0 is skipped: no_such_module"
    )
    assert computed.returncode == 4
    assert "fleet_ranks      4  ranks  ok" in computed.stdout


BOOM = """
from ccltui.metrics.metric import Metric

def compute(view):
    raise ArithmeticError("1 / 0 in\\nthe metric")

METRIC = Metric("boom", "1", "Boom.", (), ("boom",), "boom", compute)
"""


def test_a_metric_that_fails_inside_is_1_and_one_line(job: Path, tmp_path: Path) -> None:
    (tmp_path / "boom_metric.py").write_text(BOOM)
    facts = tmp_path / "boom-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: boom\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[ccltui.metrics]\nboom = boom_metric:METRIC\n")
    arguments = (CCLTUI, job, "--metric", "boom", "--metric", "iter_time", "--format", "json")

    quiet = run(*arguments, env={"PYTHONPATH": str(tmp_path)})
    loud = run(*arguments, "--debug", env={"PYTHONPATH": str(tmp_path)})

    assert quiet.returncode == loud.returncode == 1
    boom, steps = json.loads(quiet.stdout)["results"]
    assert (boom["status"], boom["reason"]) == ("unavailable", "internal_error")
    assert steps["status"] == "ok"
    assert quiet.stderr == (
        "ccltui: boom is unavailable: the metric plug-in boom of boom 1.0 failed: "
        "ArithmeticError: 1 / 0 in the metric\n"
    )
    assert "Traceback" in loud.stderr
    assert "boom_metric.py" in loud.stderr


def test_a_directory_called_like_a_verb(job: Path, tmp_path: Path) -> None:
    (tmp_path / "doctor").symlink_to(job)

    done = run(CCLTUI, "./doctor", "--metric", "iter_time", cwd=tmp_path)
    verb = run(CCLTUI, "doctor", "doctor", "--files-only", cwd=tmp_path)

    assert done.returncode == verb.returncode == 0
    assert done.stdout.startswith("metric ")
    assert verb.stdout.startswith("path ")


def test_closed_standard_error_hides_nothing(job: Path) -> None:
    command = f'exec "{CCLTUI[0]}" "{job}" --metric iter_time --fail-if "iter_time > 0" 2>&-'
    done = run(["/bin/sh", "-c", command])
    assert done.returncode == 4
    assert "avg_iter_time_ms" in done.stdout


def test_all_asks_for_what_the_traces_can_tell(job: Path) -> None:
    everything = run(CCLTUI, job, "--metric", "all", "--format", "csv")
    named = run(CCLTUI, job, "--metric", "all", "--metric", "ttft", "--format", "csv")

    assert ",unavailable," in everything.stdout
    assert (everything.returncode, named.returncode) == (0, 3)


def test_recordings_of_strangers_are_a_choice_and_not_a_job(tmp_path: Path) -> None:
    for name, start_us in (("bert", 1_700_000_000_000_000), ("gpt", 1_710_000_000_000_000)):
        event = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "dur": 5}
        text = json.dumps({"schemaVersion": 1, "traceEvents": [{**event, "ts": start_us}]})
        (tmp_path / f"{name}.json").write_text(text)

    refused = run(CCLTUI, str(tmp_path), "--metric", "gpu_busy", "--no-cache")
    chosen = run(CCLTUI, str(tmp_path), "--metric", "gpu_busy", "--capture", "gpt.json")

    assert refused.returncode == 1
    assert refused.stderr.startswith(f"ccltui: {tmp_path} holds 2 recordings that are not ranks")
    assert "--capture NAME: bert.json and gpt.json" in refused.stderr
    assert chosen.returncode == 0
