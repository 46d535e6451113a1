"""The application under keys: every action, one cursor, windows, stops and failures."""

from __future__ import annotations

import asyncio
import gc
import weakref
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from explorers import LONGEST_S, Settle, Start, appears, press, screen, shows, until
from fakes import FakeLoad, Plan, fail_to_open
from textual import events
from textual.pilot import Pilot

from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.discovery.discover import Capture, Discovery, FoundFile
from ccltui.parsers.job import Job
from ccltui.parsers.window import Window
from ccltui.tui.action_list import active
from ccltui.tui.app import Explorer
from ccltui.tui.canvas import CellCanvas
from ccltui.tui.engine.background import FactPosted
from ccltui.tui.engine.messages import Fact, JobOpened, LoadEnded, Problem
from ccltui.tui.panes import PANES
from ccltui.tui.state.pane import pane_named
from ccltui.tui.state.pane_states import ALIGNMENT, TIMELINE


async def test_it_opens_loads_and_computes(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)

        assert await appears(pilot, "8/8")
        assert await appears(pilot, "Everyone waits for rank 5")
        assert await appears(pilot, "Ranks, those of findings first")
        await pilot.press("u", "G")
        await pilot.pause()
        assert await appears(pilot, "collective calls")
        assert await appears(pilot, "absent: no workload card here")


async def test_the_worst_straggler_is_two_keys_away_and_stays_selected(
    start: Start, settle: Settle
) -> None:
    app = start()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "2", "]")

        assert await appears(pilot, "AllReduce #40")
        assert await appears(pilot, "▶r5       +12 ms")
        assert await appears(pilot, "worst 1/84")

        await press(pilot, "3")
        assert app.scene.state.pane == TIMELINE
        assert await appears(pilot, "▶r5")
        assert await appears(pilot, "last r5")


async def test_a_fact_that_comes_while_the_application_ends_is_not_shown(start: Start) -> None:
    app = start()
    async with app.run_test(size=(90, 26)):
        screens = app.screen_stack
        app._screen_stack.clear()

        app.on_fact_posted(FactPosted(Problem("late"), 0))

        app._screen_stack.extend(screens)
        assert app.scene.session.phase != "failed"


@pytest.mark.parametrize("pane", [pane.name for pane in PANES])
async def test_every_key_of_a_pane_acts_or_says_why_not(
    start: Start, settle: Settle, pane: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # S writes a picture
    app = start()
    async with app.run_test(size=(90, 26)) as pilot:
        await settle(pilot)
        for action in active(pane):
            if action.id in ("app.quit", "app.interrupt"):
                continue
            if app.scene.state.pane is not pane:
                await strike(app, pane_named(pane).key)
            await strike(app, *action.keys[0].split(" "))
            if action.id == "app.help" or app.control.asking is not None:
                await strike(app, "escape")
            assert app.is_running


async def strike(app: Explorer, *keys: str) -> None:
    """Have keys acted on, in a third of the time of a pilot, which waits for each to be drawn."""
    done = asyncio.get_running_loop().create_future()

    def act() -> None:
        try:
            for key in keys:
                app.on_key(events.Key(key, key if len(key) == 1 else None))
            done.set_result(None)
        except Exception as error:
            done.set_exception(error)

    assert app.call_later(act)
    async with asyncio.timeout(LONGEST_S):
        await done


async def test_the_reason_is_one_more_key_away(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "2", "]", "enter")
        assert await appears(pilot, "why late: rank 5: 12 ms more computation")

        await press(pilot, "enter")
        assert await appears(pilot, "! the blame ends here: r5 was late by itself")
        await press(pilot, "tab", "j", "enter")
        assert (app.scene.state.pane, app.scene.state.selection.rank) == (TIMELINE, "1")
        await press(pilot, "escape")
        assert not shows(app, "why late")


async def test_events_are_listed_filtered_and_followed(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "2", "]", "4")
        assert await appears(pilot, "▶40  59.677 ms  550 us    12 ms  AllReduce default_pg 0-7")
        assert await appears(pilot, "84 collectives  by start  r5")

        await press(pilot, "C", "F", *"(", "enter")
        assert await appears(pilot, "no regular expression: missing )")
        await press(pilot, "backspace", *"gemm", "enter")
        assert await appears(pilot, "/gemm/ 84 of 168 device work")
        assert await appears(pilot, "row 41 of 84 (168 unfiltered)   sm90_xmma_gemm_bf16")
        await press(pilot, "j", "3")
        assert await appears(pilot, "▶r5")
        assert await appears(pilot, "s7 sm90_xmma_gemm_bf16")


async def test_a_window_filters_every_pane_without_a_reload(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, "t", *"10ms/20ms", "enter")
        await settle(pilot)

        assert app.scene.session.filter == ViewOptions(window=Window(10_000_000, 20_000_000))
        assert await appears(pilot, "window 10ms/20ms")
        communicator = app.scene.communicator
        assert communicator is not None
        assert 0 < len(communicator) < 84
        assert app.scene.state.time.start_ns == 10_000_000

        await press(pilot, "ctrl+t")
        await settle(pilot)
        assert app.scene.session.filter == ViewOptions()
        assert len(app.scene.findings.communicators[0]) == 84  # type: ignore[index]


async def test_a_bad_window_is_refused_in_the_prompt(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "t", *"4s", "enter")

        assert await appears(pilot, "no slash between start and end")
        assert await appears(pilot, " > 4s ")
        await press(pilot, "escape")
        assert app.scene.session.filter == ViewOptions()


async def test_steps_as_a_window(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "t", *"iter 2-3", "enter")
        await settle(pilot)

        assert await appears(pilot, "it 2-3")
        assert app.scene.findings.communicators is not None
        assert len(app.scene.findings.communicators[0]) == 28


async def test_keys_that_cannot_act_say_why(start: Start, settle: Settle) -> None:
    app = start(FakeLoad(Plan(ranks=1)))
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "]")
        assert await appears(pilot, "! no collective is matched across ranks")
        await press(pilot, "b")
        assert await appears(pilot, "! b works in 3 Timeline")
        await press(pilot, "escape")
        assert await appears(pilot, "! nothing is open: q quits")
        await press(pilot, "2")
        assert await appears(pilot, "No collectives")
        assert not shows(app, "q quits")


async def test_esc_stops_loading_and_keeps_what_is_there(start: Start, settle: Settle) -> None:
    app = start(FakeLoad(stop_after=3))
    async with app.run_test(size=(100, 30)) as pilot:
        await until(
            pilot, lambda: app.scene.session.ranks_loaded >= 3 and app.scene.findings.complete
        )
        assert await appears(pilot, "esc stops and keeps what is there")
        assert await appears(pilot, "3/8")
        await press(pilot, "2", "]")
        assert await appears(pilot, "worst 1/")

        await press(pilot, "escape")
        await settle(pilot)
        assert app.scene.session.phase == "stopped"
        assert await appears(pilot, "3/8 stopped")
        assert not shows(app, "loading")
        assert not shows(app, "stopping")


async def test_a_file_that_fails_is_named_and_its_escapes_are_harmless(
    start: Start, settle: Settle
) -> None:
    app = start(FakeLoad(failing=(3,)))
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)

        assert await appears(pilot, "7/8")
        assert await appears(pilot, "1 file cannot be read")
        await pilot.press("M", "G")
        await pilot.pause()
        assert await appears(pilot, "x rank3.json at byte 1,203: truncated ␛[2Jafter 8,100 events")
        assert not any("\x1b" in row for row in screen(app))


async def test_nothing_to_open_is_said_and_is_the_exit_code(start: Start, settle: Settle) -> None:
    app = start(fail_to_open)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)

        assert await appears(pilot, "no trace that can be opened")
        assert await appears(pilot, "Nothing can be shown.")
        await press(pilot, "q")
    assert app.return_value == 1


async def test_a_loader_that_breaks_is_an_error_on_the_screen(start: Start, settle: Settle) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("[bold]oops[/bold]")

    app = start(broken)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)

        assert await appears(pilot, "internal error: RuntimeError: [bold]oops[/bold]")


async def test_help_lists_the_keys_of_the_pane_and_any_key_closes_it(
    start: Start, settle: Settle
) -> None:
    app = start()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "2", "?")
        assert await appears(pilot, "Help: Alignment")
        assert await appears(pilot, "any other key closes")
        await press(pilot, *"jjjjjjjj")
        assert await appears(pilot, "] [       next, previous worst")

        await press(pilot, "x")
        assert not shows(app, "Help: Alignment")
        assert app.scene.state.pane == ALIGNMENT


@pytest.mark.parametrize("size", [(69, 24), (80, 17)])
async def test_a_small_terminal_says_what_is_needed(
    start: Start, settle: Settle, size: tuple[int, int]
) -> None:
    app = start()
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        assert await appears(pilot, f"Terminal is {size[0]}x{size[1]}; ccltui needs 70x18.")
        assert not shows(app, "Diagnosis")

        await pilot.resize_terminal(80, 24)
        assert await appears(pilot, "Diagnosis")


async def test_a_wide_terminal_shows_both_charts_with_one_cursor(
    start: Start, settle: Settle
) -> None:
    app = start()
    async with app.run_test(size=(200, 50)) as pilot:
        await settle(pilot)
        await press(pilot, "2", "]")

        assert await appears(pilot, "by arrival")
        assert await appears(pilot, " net ")
        assert sum("▼" in row for row in screen(app)) == 2

        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        assert not shows(app, " net ")


async def test_equal_pictures_refresh_nothing(
    start: Start, settle: Settle, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "3")
        canvas = app.query_one("#timeline", CellCanvas)
        refreshed: list[object] = []
        monkeypatch.setattr(canvas, "refresh", lambda *regions: refreshed.extend(regions))

        canvas.show(app.scene, 8)
        await pilot.pause()
        assert refreshed == []

        await press(pilot, "j")
        assert refreshed
        assert all(region.height == 1 for region in refreshed)  # type: ignore[attr-defined]


async def test_held_keys_cost_fewer_frames_than_keys(
    start: Start, settle: Settle, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        canvas = app.query_one("#timeline", CellCanvas)
        frames: list[int] = []
        draw = canvas._draw

        def counted() -> None:
            frames.append(1)
            draw()

        monkeypatch.setattr(canvas, "_draw", counted)
        await press(pilot, "3")
        frames.clear()

        for _ in range(20):
            canvas.show(app.scene, 8)
        await pilot.pause()

        assert len(frames) == 1


async def test_quit_and_interrupt(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "ctrl+c")
    assert app.return_value == 0


async def test_without_colour_nothing_is_coloured(start: Start, settle: Settle) -> None:
    app = start(color="never")
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        for keys in ("1", "2", "3", "?"):
            await press(pilot, keys)
            for strip in app.screen._compositor.render_strips():
                for part in strip:
                    assert part.style is not None
                    for color in (part.style.color, part.style.bgcolor):
                        assert color is None or color.is_default, (keys, part)
        assert not app.scene.colour


async def test_a_directory_without_traces_says_what_is_there(start: Start, settle: Settle) -> None:
    def only_an_archive(
        path: str, options: object, post: Callable[[Fact], object], cancelled: object
    ) -> None:
        del options, cancelled
        found = FoundFile("old.tgz", "/old.tgz", "archive", 9, problem="unpack it first")
        capture = Capture("", None, (), (), None, complete=False)
        post(JobOpened(Job(path, Discovery(path, (found,), (capture,)), capture)))
        post(LoadEnded(stopped=False))

    app = start(only_an_archive)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: not app.scene.session.busy)
        await pilot.pause()

        assert await appears(pilot, "No trace that can be shown.")
        assert await appears(pilot, "Found 1 archive.")
        assert await appears(pilot, "old.tgz: unpack it first")


async def test_ranks_without_findings_are_being_computed(start: Start) -> None:
    class Waiting:
        def run(self, *_: object) -> None: ...

    app = start(analyst=lambda _: Waiting())
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: not app.scene.session.busy)
        await pilot.pause(0.1)

        assert await appears(pilot, "Computing the first numbers of 8 ranks.")
        assert not shows(app, "No trace that can be shown.")


async def picture(pilot: Pilot[int], folder: Path) -> str:
    """The first picture of Alignment, once the explorer says that it is there."""
    assert await appears(pilot, "picture in ccltui-alignment-1.svg")
    return (folder / "ccltui-alignment-1.svg").read_text()


async def test_what_is_in_view_is_written_copied_and_pictured(
    start: Start, settle: Settle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "2", "e", "enter")
        assert await appears(pilot, "84 rows in ccltui-alignment-1.csv")
        await press(pilot, "y")
        assert await appears(
            pilot, "copied: ccltui /nowhere/run-0421 --metric straggler_lag --group"
        )
        assert app.clipboard.startswith("ccltui /nowhere/run-0421 --metric straggler_lag")
        await press(pilot, "S")
        pictured = await picture(pilot, tmp_path)
        assert pictured.startswith("<svg")
        assert "r7&#160;" in pictured
        ET.fromstring(pictured)
        assert "url(" not in pictured.replace("url(#", "")  # no font of another host
        assert all(map(str.isprintable, pictured.split("\n")))


async def test_a_command_pictures_what_is_behind_the_commands(
    start: Start, settle: Settle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "2", ":", *"picture", "enter")
        pictured = await picture(pilot, tmp_path)
        assert "Commands" not in pictured
        assert "r7&#160;" in pictured


async def test_an_area_becomes_the_window(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "3", "v", "L", "v")
        assert await appears(pilot, " area ")
        await press(pilot, "T")
        await settle(pilot)
        assert app.scene.session.filter.window is not None
        assert app.scene.state.area is None


async def test_hidden_panes_keep_no_findings_of_before(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await press(pilot, "2")
        old = weakref.ref(app.scene.findings.communicators[0].heat.late_ns)  # type: ignore[index]
        await press(pilot, "1")
        app.control.clear_window()
        await settle(pilot)
        await pilot.pause()
        gc.collect()

        assert app.scene.findings.communicators is not None
        assert old() is None
