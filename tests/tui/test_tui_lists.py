"""Every list can be filtered, and sorted by each of its columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from explorers import Settle, Start, listed, pane_text, typed
from fakes import scene
from msgspec import Struct
from runs_by_hand import pair, put_run

from ccltui.demo import Spec, write_job
from ccltui.draw.planes import Planes
from ccltui.parsers import numbers
from ccltui.tui import panes
from ccltui.tui.action_list import active
from ccltui.tui.engine.loader import run_load
from ccltui.tui.input.prompts import ROWS
from ccltui.tui.panes.events import EVENTS
from ccltui.tui.panes.files import FILES
from ccltui.tui.panes.list_pane import Column, ListPane, name_column
from ccltui.tui.panes.runs_and_machines import RUNS
from ccltui.tui.panes.steps import STEPS
from ccltui.tui.panes.text_page import TextPage, tables_of, value_of
from ccltui.tui.state import pane_states
from ccltui.tui.state.pane import Pane
from ccltui.tui.state.pane_states import Sorting, Value
from ccltui.tui.state.scene import Scene


@pytest.mark.parametrize("pane", [one for one in panes.PANES if not one.is_chart])
def test_every_list_is_filtered_and_sorted(pane: Pane) -> None:
    keys = {key: action.id for action in active(pane.name) for key in action.keys}

    assert keys["/"] in ("filter.rows", "find.search")
    assert keys["o"].endswith(".sort")
    assert keys["O"].endswith(".reverse")


@pytest.mark.parametrize(
    ("sorting", "values", "expected"),
    [
        (Sorting("x"), [1, None, 3.5, 2], [2, 3, 0, 1]),
        (Sorting("x", reverse=True), [1, None, 3.5, 2], [0, 3, 2, 1]),
        (Sorting("x"), ["b", None, "A"], [2, 0, 1]),
        (Sorting("x", reverse=True), ["b", None, "A"], [0, 2, 1]),
        (Sorting("x"), [5, 5, 7], [2, 0, 1]),
        (Sorting("x"), [0, -3, 2], [2, 0, 1]),
    ],
)
def test_numbers_are_largest_first_texts_by_letters_and_unknown_ones_last(
    sorting: Sorting, values: list[Value], expected: list[int]
) -> None:
    assert sorting.order(values) == expected


def test_columns_follow_in_turn_and_come_round() -> None:
    columns = ("", "a", "b")
    forth = [Sorting()]
    for _ in range(3):
        forth.append(forth[-1].following(columns, 1))

    assert [one.column for one in forth] == ["", "a", "b", ""]
    assert Sorting("a", reverse=True).following(columns, -1) == Sorting("")
    assert Sorting("b", reverse=True).marked("b") == "▴b"
    assert Sorting("b").marked("b") == "▼b"
    assert Sorting("b").marked("a") == "a"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    pair(root)
    put_run(root / "zz", None, complete=False)
    return root


async def test_runs_are_sorted_by_every_column_and_filtered(start: Start, runs: Path) -> None:
    app = start(run_load, "256", str(runs))
    async with app.run_test(size=(200, 50)) as pilot:
        await listed(pilot)
        found = RUNS.found_rows(app.scene) or ()
        assert len(found) == 3
        for column in RUNS.sort_columns(app.scene)[1:]:
            await pilot.press("o")
            assert RUNS.sorting(app.scene).column == column
            assert f"▼{column}" in pane_text(app)
            rows = RUNS.rows(app.scene) or ()
            assert sorted(row.name for row in rows) == sorted(row.name for row in found)
            order = next(one.order for one in RUNS.columns if one.title == column)
            assert order is not None
            values = [order(row) for row in rows]
            assert Sorting(column).order(values) == [0, 1, 2]
        await pilot.press("o", "/", *"zz", "enter")
        assert [row.name.split("/")[-1] for row in RUNS.rows(app.scene) or ()] == ["zz"]
        await pilot.press("/", *"qq", "enter")
        assert "No run matches /zzqq/" in pane_text(app)
        assert RUNS.why_no_rows(app.scene) == "no run matches /zzqq/: / changes the filter"


async def test_files_are_sorted_by_size_as_a_number(start: Start, runs: Path) -> None:
    app = start(run_load, "256", str(runs))
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot)
        await pilot.press("5", "o", "o", "o", "o")
        assert FILES.sorting(app.scene) == Sorting("size")
        job = app.scene.session.job
        assert job is not None
        sizes = {file.path: file.size_bytes for file in job.discovery.files}
        lines = [line.split() for line in pane_text(app).splitlines()[1:] if line.strip()]
        shown = [words[0].lstrip("▶") for words in lines]
        listed_sizes = [sizes[name] for name in shown if name in sizes]
        assert listed_sizes == sorted(listed_sizes, reverse=True)
        assert len(listed_sizes) > 3
        await pilot.press("O")
        assert FILES.sorting(app.scene).reverse


PAGE = """\
Kernels: a.txt
Time (%)  Total (us)  Size     Name
    70.0     1,200.5  1 KiB    gemm  with blanks
    20.0       300.0  2 MiB    copy
    10.0         -    512 B    add

Ranges: a.txt
no table here
Total (us)  Range
      5.0   forward
      9.0   backward
"""


class _Line(Struct, frozen=True):
    text: str


class _Page(TextPage[_Line]):
    name = "page"
    definition = ""

    def found_rows(self, scene: Scene) -> list[_Line]:
        return [_Line(text) for text in PAGE.splitlines()]

    def is_heading(self, row: _Line) -> bool:
        return row.text.endswith("a.txt")

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        raise NotImplementedError


def shown(page: _Page, found: Scene) -> list[str]:
    return [line.text.split()[-1] for line in page.rows(found) or () if line.text.strip()]


def test_tables_of_a_page_are_found_with_their_cells() -> None:
    kernels, ranges = tables_of(PAGE.splitlines())

    assert kernels.titles == ("Time (%)", "Total (us)", "Size", "Name")
    assert [value_of(row[2]) for row in kernels.cells] == [1024.0, 2.0 * 2**20, 512.0]
    assert [value_of(row[1]) for row in kernels.cells] == [1200.5, 300.0, None]
    assert [row[0] for row in ranges.cells] == ["5.0", "9.0"]
    assert tables_of(["1  2", "3  4"]) == []  # numbers are no titles


def test_every_table_with_the_column_is_sorted_and_the_others_stay() -> None:
    page, found = _Page(), scene()
    assert page.sort_columns(found) == ("", "Time (%)", "Total (us)", "Size", "Name", "Range")

    by_size = found.with_state(page.with_sorting(found, Sorting("Size")))
    assert shown(page, by_size)[2:5] == ["copy", "blanks", "add"]
    assert shown(page, by_size)[-2:] == ["forward", "backward"]
    by_total = found.with_state(page.with_sorting(found, Sorting("Total (us)")))
    assert shown(page, by_total)[2:5] == ["blanks", "copy", "add"]
    assert shown(page, by_total)[-2:] == ["backward", "forward"]


def test_lines_of_a_page_are_found_below_their_headings_and_titles() -> None:
    page, found = _Page(), scene()
    filtered = found.with_state(page.with_row_pattern(found, "copy|backward"))

    assert shown(page, filtered) == ["a.txt", "Name", "copy", "a.txt", "Range", "backward"]
    assert shown(page, found.with_state(page.with_row_pattern(found, "zzz"))) == []


def test_a_filter_is_kept_in_the_state_of_its_pane() -> None:
    found = scene(pane=pane_states.STEPS)
    state = ROWS.answer("13", found)

    assert STEPS.row_pattern(found.with_state(state)) == "13"  # type: ignore[arg-type]


class Totals(ListPane[tuple[str, int]]):
    """A list with a name and a number that is longer than its column."""

    name = "totals"
    columns = (
        name_column("name", lambda row: row[0], takes_rest=True, least=8),
        Column("total", lambda row: row[1], lambda ns: f"{numbers.duration(ns)}  47.2 %", width=10),
    )


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_number_longer_than_its_column_is_not_cut(width: int) -> None:
    """The column of the names has less room instead."""
    rows = [("a_long_name_of_a_kernel" * 3, 316_000_000_000)]

    (_, line), _ = Totals().lines(scene(), rows, width)

    assert line.endswith("5 min 16 s  47.2 %")
    assert len(line) <= width - 1


@pytest.fixture(scope="module")
def small_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    write_job(
        folder, Spec(tp=2, pp=1, dp_shard=2, gpus_per_node=2, layers=2, steps=2, stragglers=())
    )
    return folder


async def test_a_narrow_list_drops_whole_columns(
    start: Start, settle: Settle, small_job: Path
) -> None:
    """The last column in view has its whole title, with whole numbers below."""
    app = start(run_load, "256", str(small_job))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)  # events are listed of what was computed
        await typed(pilot, "4")
    for width in (30, 40, 50, 60):
        shown = painted(EVENTS.paint(app.scene, 18, width))
        titles = shown[0].replace("this rank late", "late").split()
        assert set(titles) <= {"k", "▼start", "dur", "lag", "what", "bytes", "it", "late"}
        sizes = [line for line in shown[1:] if line.strip()]
        assert len(sizes) > 5
        if titles[-1] == "lag":
            assert {len(line) for line in sizes} == {len(shown[0])}


def painted(planes: Planes) -> list[str]:
    return ["".join(map(chr, row)).rstrip() for row in planes.glyph]
