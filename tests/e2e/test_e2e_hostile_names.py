"""No command prints a name from a trace, card, export or folder unescaped, in any format."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import html5lib
import pytest
from hostile_names import (
    NAME,
    formulas,
    unsafe,
    write_hostile_job,
    write_hostile_nsys,
    write_hostile_runs,
)
from msgspec import Struct, structs

from ccltui import cli, process
from ccltui.commands import ccl_metrics_command


class Hostile(Struct, frozen=True):
    """Where the files with the names are."""

    job: str
    nsys: str
    export: str
    a: str
    b: str


class Output(Struct, frozen=True):
    """What one command wrote."""

    status: int
    out: bytes
    err: bytes


Run = Callable[..., Output]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    root = tmp_path_factory.mktemp("hostile")
    job, nsys = root / f"{NAME}job", root / f"{NAME}nsys"
    write_hostile_job(job)
    export = write_hostile_nsys(nsys)
    a, b = write_hostile_runs(root)
    return Hostile(str(job), str(nsys), str(export), str(a), str(b))


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """A command in this process."""

    def run_one(*arguments: str, command: Any = cli.run) -> Output:
        status = process.run(command, arguments)
        return Output(status, *capfdbinary.readouterr())

    return run_one


def commands(form: str) -> dict[str, Sequence[str]]:
    """Every command that prints in ``form``; ``{job}`` and the like are filled in."""
    found: dict[str, Sequence[str]] = {}
    loading = ("--jobs", "1")
    if form in ("table", "csv", "json", "jsonl"):
        found["metrics"] = ("{job}", "--metric", "all", "--detail", *loading)
    if form in ("table", "markdown", "csv", "json"):
        found["report"] = ("metrics-report", "{job}", "{nsys}/x", *loading)
    if form in ("table", "csv", "json"):
        found["diff"] = ("diff", "{a}", "{b}")
    if form in ("column", "csv", "json"):
        found["stats of an export"] = ("stats", "{export}")
        found["stats of texts"] = ("stats", "{nsys}", "--each", *loading)
        found["stats of a job"] = ("stats", "{job}", *loading)
        found["alltoall"] = ("stats", "{nsys}", "--alltoall")
    if form in ("table", "json"):
        found["doctor"] = ("doctor", "{job}", *loading)
        found["doctor of runs"] = ("doctor", "{a}", *loading)
    if form in ("text", "json"):
        found["lint"] = ("card", "lint", "{job}/workload_card.yaml")
        found["lint of a job"] = ("card", "lint", "{job}", *loading)
    return found


def cases(*forms: str) -> list[Any]:
    return [
        pytest.param(form, arguments, id=f"{name} as {form}")
        for form in forms
        for name, arguments in commands(form).items()
    ]


def filled(arguments: Sequence[str], hostile: Hostile) -> list[str]:
    return [word.format(**structs.asdict(hostile)) if "{" in word else word for word in arguments]


@pytest.mark.parametrize(
    ("form", "arguments"), cases("table", "column", "csv", "json", "jsonl", "markdown", "text")
)
def test_nothing_leaves_raw(
    form: str, arguments: Sequence[str], hostile: Hostile, run: Run, tmp_path: Path
) -> None:
    done = run(*filled(arguments, hostile), "--format", form)

    assert done.out
    assert unsafe(done.out) == set()
    assert unsafe(done.err) == set()
    assert b"Traceback" not in done.err
    assert b"internal error" not in done.err
    CHECKS.get(form, str)(done.out.decode())
    if form == "json":
        target = tmp_path / f"{NAME}.json"
        run(*filled(arguments, hostile), "--format", form, "-o", str(target))
        assert target.read_bytes() == done.out


def test_a_report_has_no_markup_of_names(hostile: Hostile, run: Run) -> None:
    loading = ("--jobs", "1", "-o", "-")
    page = run("report", hostile.job, *loading)
    text = run("report", hostile.job, "--format", "md", *loading)

    for done in (page, text):
        assert unsafe(done.out) == set()
        assert unsafe(done.err) == set()
        assert not re.search(r"<b>|<x", done.out.decode())
    assert "&lt;b&gt;x" in page.out.decode()
    root = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page.out)
    names = {str(one.tag).rpartition("}")[2] for one in root.iter()}
    assert not names & {"b", "script", "img", "a:b"}


def check_csv(text: str) -> None:
    for part in text.split("\n\n"):
        for row in csv.reader(io.StringIO(part)):
            assert formulas(row) == set()


def check_lines(text: str) -> None:
    for line in text.splitlines():
        json.loads(line)


def check_markdown(text: str) -> None:
    table = [line for line in text.split("\n") if line.startswith("|")]
    columns = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
    assert len(columns) == 1
    assert not re.search(r"<[a-zA-Z/!?]", text)


CHECKS: dict[str, Callable[[str], Any]] = {
    "csv": check_csv,
    "json": json.loads,
    "jsonl": check_lines,
    "markdown": check_markdown,
}


def test_json_has_the_names_themselves(hostile: Hostile, run: Run) -> None:
    doctor = json.loads(run("doctor", hostile.job, "--format", "json", "--jobs", "1").out)
    stats = json.loads(run("stats", hostile.export, "-r", "nvtx_sum", "--format", "json").out)

    assert doctor["path"].endswith(f"{NAME}job")
    assert any(row["Range"].endswith(NAME) for row in stats)


OTHERS: dict[str, tuple[str, ...]] = {
    "list of metrics": ("--list-metrics",),
    "keys": ("--keys",),
    "beginning of a card": ("card", "init", "{job}", "--jobs", "1"),
    "a path that is not there": ("{job}/none", "--metric", "all"),
    "a path that is not there, debug": ("{job}/none", "--metric", "all", "--debug"),
    "an option that is not there": ("{job}", "--x{job}"),
    "a wrong value": ("{job}", "--metric", "{job}"),
    "a target that cannot be": ("{job}", "--metric", "all", "-o", "{job}/a/b"),
    "a wrong condition": ("{job}", "--fail-if", "{job}"),
    "a condition that holds": ("{job}", "--fail-if", "iter_time > 0", "--jobs", "1"),
    "rank map": ("{job}", "--metric", "iter_time", "--rank-map", "{job}"),
    "an empty directory": ("{job}/..", "--metric", "iter_time", "--jobs", "1"),
    "a card that is none": ("card", "lint", "{export}"),
    "diff of what is no run": ("diff", "{export}", "{a}"),
    "stats of what is none": ("stats", "{job}/workload_card.yaml"),
    "a report that is not there": ("stats", "{export}", "-r", "{job}"),
    "analyse": ("analyse", "{job}", "--jobs", "1", "--output-dir", "{a}/out"),
    "a demo": ("demo", "{a}/demo", "--no-open"),
}


@pytest.mark.parametrize("arguments", OTHERS.values(), ids=OTHERS.keys())
def test_no_other_output_is_raw(arguments: Sequence[str], hostile: Hostile, run: Run) -> None:
    done = run(*filled(arguments, hostile))

    assert done.out or done.err
    assert unsafe(done.out) == set()
    assert unsafe(done.err) == set()


def test_files_beside_the_traces(hostile: Hostile, run: Run, tmp_path: Path) -> None:
    run("analyse", hostile.job, "--jobs", "1", "--output-dir", str(tmp_path))

    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in written} == {"metrics.json", "metrics.csv"}
    for path in written:
        assert unsafe(path.read_bytes()) == set()


@pytest.mark.parametrize("metrics", [("iter_time",), ("iter_time", "straggler_lag")])
def test_the_document_of_ccl_metrics(metrics: Sequence[str], hostile: Hostile, run: Run) -> None:
    named = [word for name in metrics for word in ("--metric", name)]

    done = run("--trace", hostile.job, *named, command=ccl_metrics_command.run)

    json.loads(done.out)
    assert unsafe(done.out) | unsafe(done.err) == set()


def test_the_drawing_is_xml(hostile: Hostile, run: Run, tmp_path: Path) -> None:
    target = tmp_path / "delays.svg"

    run("stats", hostile.nsys, "--alltoall", "--svg", str(target))

    ET.fromstring(target.read_text())
    assert unsafe(target.read_bytes()) == set()
