"""Finding one's way under keys: search, go to, two strokes, chosen ranks, views of before."""

from __future__ import annotations

from explorers import Settle, Start, appears, press, shows, until

from ccltui.tui.panes.files import FILES
from ccltui.tui.state.query_kinds import HitQuery
from ccltui.tui.state.wanted_queries import listed_events


async def test_a_search_steps_through_its_hits_until_esc(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "3", "n")
        assert await appears(pilot, "! no search yet: / begins one")
        await press(pilot, "/", *"nccl", "enter")
        await until(pilot, lambda: app.scene.answers.latest(HitQuery) is not None)
        await press(pilot, "0", "n", "n")
        assert shows(app, "/nccl/ 43/84")  # two hits after the place of the first finding
        await press(pilot, "escape")
        assert not shows(app, "/nccl/")


async def test_goto_shows_the_place_while_it_is_typed(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "2", "g", *"k50")
        assert app.scene.state.selection.k == 50
        await press(pilot, "escape")
        assert app.scene.state.selection.k == 40  # the place of the first finding
        await press(pilot, "G", "g", "g")
        assert app.scene.state.selection.rank == "0"
        assert app.control.asking is None


async def test_two_strokes_also_work_where_the_first_alone_means_nothing(
    start: Start, settle: Settle
) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "5", "G")
        assert FILES.row(app.scene) > 0
        await press(pilot, "g")
        assert await appears(pilot, "g works in 2 Alignment, 3 Timeline and 4 Events")
        await press(pilot, "g")
        assert FILES.row(app.scene) == 0
        assert not shows(app, "works in")

        await press(pilot, "g", "2")
        assert await appears(pilot, "[2 Align]")


async def test_ranks_are_chosen_and_views_come_back(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "r", *"2-4", "enter")
        await settle(pilot)
        assert tuple(app.scene.findings.lanes) == ("2", "3", "4")
        assert await appears(pilot, "ranks 2,3,4")

        await press(pilot, "3", "m", "a", "2", "'", "a")
        assert await appears(pilot, "[3 Time]")
        await press(pilot, "backspace")
        assert await appears(pilot, "[2 Align]")
        await press(pilot, "ctrl+r")
        assert await appears(pilot, "[3 Time]")


async def test_hits_and_rows_show_while_the_pattern_is_typed(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "3", "/", *"nccl")
        await until(pilot, lambda: app.scene.answers.latest(HitQuery) is not None)
        await pilot.pause()
        assert app.control.asking is not None
        assert await appears(pilot, "▴")
        await press(pilot, "escape")
        assert app.scene.state.search == ""

        await press(pilot, "4", "C", "F", *"gemm")

        def is_listed() -> bool:
            found = listed_events(app.scene)
            return found is not None and found.listing.pattern == "gemm"

        await until(pilot, is_listed)
        await pilot.pause()
        found = listed_events(app.scene)
        assert found is not None
        assert app.control.asking is not None
        assert {found.name_of(row) for row in found.order.tolist()} == {"sm90_xmma_gemm_bf16"}
