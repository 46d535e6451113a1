"""Compare: two paths give a pane with the tables of ccltui diff."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from explorers import Start, listed, pane, pane_text

from ccltui.demo import Spec, write_job
from ccltui.tui.engine.loader import run_load
from ccltui.tui.export import command_line
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.panes.compare_pane import ComparePane, CompareQuery, compared_lines
from ccltui.tui.state.pane import register, unregister


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("pair")
    for name in ("before", "after"):
        write_job(root / name, Spec(tp=1, pp=1, gpus_per_node=1, steps=3, layers=1, stragglers=()))
    return root / "before", root / "after"


@pytest.fixture
def compare(pair: tuple[Path, Path]) -> Iterator[ComparePane]:
    found = ComparePane(str(pair[1]), ExplorerOptions())
    register(found)
    yield found
    unregister(found)


async def test_two_paths_are_compared(
    start: Start, pair: tuple[Path, Path], compare: ComparePane
) -> None:
    app = start(run_load, "256", str(pair[0]))
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot)
        await pilot.press("&")
        await listed(pilot)

        assert pane(app) == "compare"
        shown = pane_text(app)
        assert "B  after" in shown
        assert "n = 3 against 3 steps: an interval needs 4 a side" in shown
        lines = [line.text for line in compare.rows(app.scene) or ()]
        assert any(line.startswith("= step time") for line in lines)
        assert command_line(app.scene, app.options) == f"ccltui diff {pair[0]} {pair[1]}"


def test_what_the_command_reports_is_shown_where_it_prints_nothing(tmp_path: Path) -> None:
    query = CompareQuery((str(tmp_path / "absent"), str(tmp_path)))

    lines = query.answer(None, lambda: False)  # type: ignore[arg-type]

    message = " ".join(line.text.strip() for line in lines)
    assert message.count("ccltui: ") == 1
    assert message.endswith("no such file or directory")


def test_a_query_that_is_no_longer_wanted_ends() -> None:
    query = CompareQuery(("/absent", "/absent"))

    assert query.answer(None, lambda: True) in ((), query.answer(None, lambda: False))  # type: ignore[arg-type]


def test_the_first_line_of_each_block_is_a_heading() -> None:
    lines = compared_lines("A  x\nB  y\n\nhead\nrow\n")

    assert [line.text for line in lines if line.is_heading] == ["A  x", "head"]


def test_sentences_are_wrapped_and_tables_are_not() -> None:
    sentence = " ".join(["neither better nor worse,"] * 6)
    table = "kernel" + " " * 80 + "ms"

    lines = [line.text for line in compared_lines(f"{sentence}\n\n{table}\n")]

    assert " ".join(line.strip() for line in lines[:-2]) == sentence
    assert max(len(line) for line in lines[:-2]) <= 78
    assert lines[-2:] == ["", table]
