"""Wrong command lines, and directories with nothing to read: one line and an exit status."""

from __future__ import annotations

import json
import platform
import re
from importlib.metadata import version
from pathlib import Path

import pytest
from shell import CCLTUI, MODULE
from warm_shell import run

import ccltui


def test_version() -> None:
    assert run(CCLTUI, "--version").stdout == f"ccltui {ccltui.__version__}\n"


@pytest.mark.parametrize("arguments", [("--version", "--verbose"), ("--verbose", "--version")])
def test_the_version_in_detail_has_what_a_report_of_a_mistake_needs(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    env = {"CCLTUI_CACHE_DIR": str(tmp_path / "c"), "XDG_CONFIG_HOME": str(tmp_path / "x")}

    lines = run(CCLTUI, *arguments, env=env).stdout.splitlines()

    facts = {line[:14].rstrip(): line[15:] for line in lines[1:]}
    assert lines[0] == f"ccltui {ccltui.__version__}"
    assert facts["installed in"] == str(Path(ccltui.__file__).resolve().parent)
    assert facts["python"].startswith(platform.python_version())
    assert f"numpy {version('numpy')}, " in facts["packages"]
    assert f"mcp {version('mcp')}, " in facts["optional"]
    assert re.match(r"\d of \d+ modules", facts["compiled"])
    assert facts["store"] == str(tmp_path / "c")
    assert facts["settings"] == f"{tmp_path}/x/ccltui/config.toml (absent)"


def test_the_version_alone_loads_none_of_the_details() -> None:
    code = (
        "import sys; from ccltui.__main__ import main\n"
        "try: main()\n"
        "finally: print('ccltui.doctor.environment_checks' in sys.modules, file=sys.stderr)"
    )
    done = run([MODULE[0], "-c", code], "--version")
    assert (done.stdout, done.stderr) == (f"ccltui {ccltui.__version__}\n", "False\n")


def test_verbose_belongs_to_the_version(job: Path) -> None:
    done = run(CCLTUI, job, "--metric", "iter_time", "--verbose")
    assert (done.returncode, done.stderr) == (2, "ccltui: --verbose needs --version\n")


def test_a_wrong_command_line_does_not_even_import_numpy() -> None:
    code = (
        "import sys; from ccltui.__main__ import main; main(); "
        "print('numpy' in sys.modules, file=sys.stderr)"
    )
    done = run([MODULE[0], "-c", code], "x", "--metric", "iter_time", "--window", "1s")
    assert done.stderr.splitlines()[-1] == "False"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metric=iter_time", "--set", "tp"], "'tp' is not NAME=VALUE, as in tp=4"),
        (["--metric=iter_time", "--set", "dp_sard=2"], "did you mean dp_shard"),
        (["--span", "inner"], "the explorer needs a terminal"),
        ([], "the explorer needs a terminal; without one ccltui explain DIR shows what costs time"),
        (["--metric", "iter_tim"], "unknown metric 'iter_tim'; did you mean iter_time"),
        (["--format", "json"], "--format needs --metric NAME"),
        (["-o", "x"], "--output needs --metric NAME"),
        (["--explain-cost"], "--explain-cost needs --metric NAME"),
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


def test_the_verb_of_another_program_names_ours() -> None:
    for words in (["compare", "a", "b"], ["compare", "a"]):
        assert run(CCLTUI, *words).stderr.endswith("; a verb must come first: ccltui diff …\n")


def test_no_directory_at_all_names_the_demo() -> None:
    done = run(CCLTUI)
    assert (done.returncode, done.stdout) == (2, "")
    assert "ccltui demo" in done.stderr


def test_a_directory_named_like_a_verb_is_opened_by_its_path(tmp_path: Path) -> None:
    hint = "for the directory of that name write ./demo"
    without = run(CCLTUI, "demo", "--fail-if", "iter_time > 1", cwd=tmp_path)
    (tmp_path / "demo").mkdir()
    done = run(CCLTUI, "demo", "--fail-if", "iter_time > 1", cwd=tmp_path)

    assert (without.returncode, done.returncode) == (2, 2)
    assert hint not in without.stderr
    assert done.stderr.endswith(f"; {hint}\n")


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


def test_a_directory_called_like_a_verb(job: Path, tmp_path: Path) -> None:
    (tmp_path / "doctor").symlink_to(job)

    done = run(CCLTUI, "./doctor", "--metric", "iter_time", cwd=tmp_path)
    verb = run(CCLTUI, "doctor", "doctor", "--files-only", cwd=tmp_path)

    assert done.returncode == verb.returncode == 0
    assert done.stdout.startswith("metric ")
    assert verb.stdout.startswith("path ")


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


def test_a_parameter_that_no_metric_of_the_run_reads_is_reported(job: Path) -> None:
    done = run(CCLTUI, job, "--metric", "iter_time", "--set", "peak_tflops=3")
    used = run(CCLTUI, job, "--metric", "mfu", "--set", "peak_tflops=3")

    assert done.returncode == 0
    assert "--set peak_tflops has no effect here: only " in done.stderr
    assert "no effect" not in used.stderr
