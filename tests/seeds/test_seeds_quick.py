"""Statements of the seed documents whose command is one of ours: run in this process.

All of them are run by ``make seeds``, with the trainers, and compared with docs/seeds.md.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_seeds import PAGE, Row, page, problem_of, read_rows, rows_by_id
from seed_data import environment, make

from ccltui import cli, process
from ccltui.commands import ccl_metrics_command
from ccltui.metrics import registry

ROWS, DOCUMENTS = read_rows()
COMMANDS = {"ccltui": cli.run, "ccl-metrics": ccl_metrics_command.run}
STATED = rows_by_id(PAGE.read_text(encoding="utf-8"))


def is_one_command(row: Row) -> bool:
    """Whether the command is one of ours, without any syntax of a shell but variables."""
    plain = not set(row.run) & set(";|&<>()`\n@*") and not row.run.count("--environment")
    return plain and row.run.split()[:1] != [] and row.run.split()[0] in COMMANDS


QUICK = [
    row
    for row in ROWS
    if row.quick and not row.torch and not row.no and is_one_command(row) and "tools" not in row.run
]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data that need no trainer."""
    folder = tmp_path_factory.mktemp("seeds")
    make(folder, trainers=False)
    return folder


@pytest.fixture
def variables(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folders of the data by name, and the data as working directory."""
    for name, value in environment(data).items():
        if name.isupper() and name not in ("PATH", "HOME", "LANG", "TERM", "VENV_DIR"):
            monkeypatch.setenv(name, value)
    monkeypatch.chdir(data)
    yield data
    registry.use_functions(registry.Functions())


def test_there_are_statements_of_every_document() -> None:
    found = {row.document for row in ROWS}

    assert found == set(DOCUMENTS)
    assert len(ROWS) >= 120
    assert len(QUICK) >= 40
    assert [row.id for row in ROWS if not row.run] == []
    assert [
        row.id for row in ROWS if row.run and not row.expect and not row.no and not row.torch
    ] == []


@pytest.mark.parametrize("row", QUICK, ids=lambda row: row.id)
def test_a_statement_holds(
    row: Row, variables: Path, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    if row.is_public:
        request.getfixturevalue("shared")
    name, *arguments = [os.path.expandvars(word) for word in shlex.split(row.run)]

    status = process.run(COMMANDS[name], arguments)

    captured = capfd.readouterr()
    problem = problem_of(row, status, captured.out + captured.err, variables)
    assert problem == "" or "**no**" in STATED[row.id]


def test_the_page_has_these_rows_and_names_every_no() -> None:
    """Statement and command of each row; outcomes are compared by ``make seeds``."""
    head = page([], DOCUMENTS).splitlines()[0]

    assert PAGE.read_text(encoding="utf-8").startswith(f"{head}\n")
    for row in ROWS:
        cells = STATED[row.id].strip("| ").split(" | ")
        assert cells[1] == row.says.replace("|", "\\|")
        assert cells[-1].startswith(("yes", "**no**: ", "not run here: needs "))
        assert (row.no == "") or row.no in cells[-1]


@pytest.mark.parametrize("row", [row for row in ROWS if row.tested], ids=lambda row: row.id)
def test_named_tests_exist(row: Row) -> None:
    assert (PAGE.parents[1] / row.tested).is_file()
