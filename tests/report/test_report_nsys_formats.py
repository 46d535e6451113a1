"""Formats of nsys stats with their arguments, against the output of nsys 2023.4.4.

``nsys_2023_4_formats.json`` is what it prints for the database of `nsys_database`, by report and
format, without blanks at the ends of lines.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nsys_database import write_database

from ccltui.metrics.nsys_reports.make_report import REPORTS, make_report
from ccltui.metrics.nsys_reports.report import Report
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.nsys.report_tables import read_report_tables
from ccltui.report.nsys_writers import (
    are_paired,
    pair,
    parse_layout,
    split_list,
    target_of,
    write_reports,
)
from ccltui.report.result_rows import csv_text

EXPECTED: dict[str, list[str]] = json.loads(
    Path(__file__).with_name("nsys_2023_4_formats.json").read_text()
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_database(tmp_path_factory.mktemp("nsys") / "made.sqlite")


@pytest.mark.parametrize("label", EXPECTED)
def test_every_format_is_that_of_nsys(made: Path, label: str) -> None:
    name, _, layout = label.partition(" ")
    report = make_report(name, read_report_tables(made, raw=REPORTS[name].raw))

    text = write_reports([("", [report])], parse_layout(layout)).decode()

    assert [line.rstrip() for line in text.strip("\n").split("\n")] == EXPECTED[label]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("yaml", "unknown format 'yaml'"),
        ("csv:time=fortnight", "time=fortnight: units are ns"),
        ("csv:mem=us", "mem=us: units are B"),
        ("csv:wide", "csv has no argument 'wide'"),
        ("column:autolines=-1", "is not a number of lines"),
    ],
)
def test_wrong_arguments_of_a_format(text: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        parse_layout(text)


def test_reports_formats_and_outputs_are_paired_and_the_last_is_repeated() -> None:
    reports = [(name, Report(name, name)) for name in ("a", "b", "c")]

    pairs = pair(reports, ["csv", "column"], [".", "-"], "ns")
    more_formats = pair(reports[:1], ["csv", "json"], ["base"], "ns")

    assert [(one.label, one.layout.name, one.output) for one in pairs] == [
        ("a", "csv", "."),
        ("b", "column", "-"),
        ("c", "column", "-"),
    ]
    files = [target_of(one, Path("x.sqlite")) for one in more_formats]
    assert files == ["base_a.csv", "base_a.json"]


def test_default_formats_and_names_of_files() -> None:
    report = ("um_sum:rows=3", Report("um_sum", "um_sum"))

    (file,) = pair([report], [], ["."], "ns")
    (console,) = pair([report], [], ["-"], "ns")
    (command,) = pair([report], ["."], ["@sort -k 2"], "ns")

    assert target_of(file, Path("dir/report.sqlite")) == "dir/report_um_sum_rows_3.csv"
    layouts = [one.layout.name for one in (file, console, command)]
    assert layouts == ["csv", "column", "csv"]


def test_a_file_has_the_format_of_its_extension_unless_one_is_named() -> None:
    reports = [("a", Report("a", "a"))]

    def name(formats: list[str], output: str) -> str:
        return pair(reports, formats, [output], "ns")[0].layout.name

    outputs = ("x.txt", "x.csv", "x.tsv", "x.json", "x.html", "/dev/stderr", "base.v2")
    assert [name([], output) for output in outputs] == [
        "column",
        "csv",
        "tsv",
        "json",
        "hdoc",
        "csv",
        "csv",
    ]
    assert name(["csv"], "x.json") == "csv"


def test_a_command_keeps_its_commas_and_one_file_takes_all_reports() -> None:
    assert split_list(["@cut -d, -f1", "a,b"]) == ["@cut -d, -f1", "a", "b"]
    assert not are_paired(["csv"], ["out.csv"])
    assert are_paired([], ["out"])
    with pytest.raises(GrammarError, match=r"x.csv is one file for several reports"):
        pair([("a", Report("a", "a"))] * 2, [], ["x.csv"], "ns")


def test_a_name_in_shared_memory_is_a_base_and_that_of_a_device_is_not() -> None:
    reports = [("a", Report("a", "a"))] * 2

    assert len(pair(reports, [], ["/dev/shm/node0"], "ns")) == 2
    with pytest.raises(GrammarError, match=r"/dev/stderr is one file for several reports"):
        pair(reports, [], ["/dev/stderr"], "ns")


def test_indented_names_are_no_formulas_unless_they_call_something() -> None:
    rows = [["--step", "-x"], ["--cmd|'/c'!A0", "--step"]]

    text = csv_text(rows, trees=[True, False])

    assert text == "--step,'-x\n'--cmd|'/c'!A0,'--step\n"
