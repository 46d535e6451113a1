"""The ending of an output decides its format, unless one is stated."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from ccltui import arguments as args
from ccltui import cli
from ccltui.commands import report_command
from ccltui.demo import Spec, write_job
from ccltui.parsers.errors import GrammarError


def settled(output: str | None, formats: tuple[str, ...], given: str | None = None) -> str:
    """Return the format of an output; the first one is the default."""
    options = argparse.Namespace(format=given, output=output)
    args.settle_format(options, formats, formats[0])
    return str(options.format)


@pytest.mark.parametrize(
    ("output", "formats", "expected"),
    [
        ("r.md", ("html", "md"), "md"),
        ("r.MD", ("html", "md"), "md"),
        ("r.markdown", ("table", "markdown"), "markdown"),
        ("r.html", ("html", "md"), "html"),
        ("a.b/r.json", ("table", "json"), "json"),
        ("r.csv", ("table", "json", "csv"), "csv"),
        ("r.jsonl", ("table", "json", "jsonl"), "jsonl"),
        ("r.txt", ("json", "table"), "table"),
        ("r.txt", ("html", "md"), "md"),
        ("r.prom", ("table", "openmetrics"), "openmetrics"),
        ("r.out", ("table", "json"), "table"),
        ("json", ("table", "json"), "table"),
        (".json", ("table", "json"), "table"),
        ("-", ("table", "json"), "table"),
        ("/dev/stdout", ("table", "json"), "table"),
        (None, ("table", "json"), "table"),
    ],
)
def test_the_ending_decides(output: str | None, formats: tuple[str, ...], expected: str) -> None:
    assert settled(output, formats) == expected


def test_a_stated_format_is_used_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert settled("r.md", ("html", "md"), "html") == "html"
    assert capsys.readouterr().err == "ccltui: r.md is written as html, as --format states\n"
    assert settled("r.md", ("html", "md"), "md") == "md"
    assert settled("r.dat", ("html", "md"), "md") == "md"
    assert capsys.readouterr().err == ""


def test_an_ending_that_the_command_does_not_write_is_refused() -> None:
    with pytest.raises(GrammarError, match=r"r.csv ends in .csv, .* as html, md; --format"):
        settled("r.csv", ("html", "md"))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    small = Spec(tp=1, pp=1, dp_shard=2, gpus_per_node=1, layers=1, steps=2, stragglers=())
    write_job(folder, small)
    return folder


def test_commands_write_what_the_ending_states(job: Path, tmp_path: Path) -> None:
    other = (str(job), "--cache-dir", str(tmp_path / "cache"))
    report_command.run([*other, "-o", str(tmp_path / "r.md")])
    assert (tmp_path / "r.md").read_text().startswith("# ")
    report_command.run([*other, "-o", str(tmp_path / "r.html")])
    assert "<!doctype html>" in (tmp_path / "r.html").read_text().lower()
    for words in (
        (*other, "--metric", "idle_ratio"),
        ("doctor", *other),
        ("explain", *other),
        ("inspect", *other, "--row", "0"),
        ("metrics-report", *other, "--metric", "idle_ratio"),
        ("diff", str(job), str(job)),
    ):
        target = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        cli.run([*words, "-o", str(target)])
        json.loads(target.read_text())
    cli.run([*other, "--metric", "idle_ratio", "-o", str(tmp_path / "m.csv")])
    assert "," in (tmp_path / "m.csv").read_text().splitlines()[0]
