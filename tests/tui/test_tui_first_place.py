"""Panes open at one place, that of the first finding, and use the room that they have."""

from __future__ import annotations

import numpy as np
from explorers import Settle, Start, appears, pane_text, screen, shows, typed
from fakes import scene
from msgspec.structs import replace

from ccltui.draw.alignment_chart import levels, scale_top_ns
from ccltui.draw.composition import Part, legend_rows
from ccltui.metrics.result import Reason
from ccltui.tui.panes import first_screen
from ccltui.tui.panes.steps import STEPS
from ccltui.tui.state.finding_rows import step_at


async def test_alignment_timeline_and_steps_open_at_one_step(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        selection, time = app.scene.state.selection, app.scene.state.time
        assert selection.k == 40  # the place of the first finding
        assert selection.time_ns is not None
        step = step_at(app.scene, selection.time_ns)
        assert step is not None
        assert time.left_ns <= step.start_ns < step.end_ns <= time.right_ns
        assert time.right_ns - time.left_ns < 2 * (step.end_ns - step.start_ns)
        assert await appears(
            pilot, f"Timeline of step {step.id}, where the first finding is largest"
        )

        await typed(pilot, "6")
        await settle(pilot)
        assert STEPS.chosen_step(app.scene) == step.id


async def test_few_ranks_fill_the_pane(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "2")
        lines = pane_text(app).splitlines()

        assert "── the same collectives in time" in "\n".join(lines)
        empty = [line for line in lines if not line.strip()]
        assert len(empty) < len(lines) / 3


async def test_disproved_matches_have_no_lags(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "2")
        found = app.scene.findings
        result = replace(
            found.results["straggler_lag"],
            status="unavailable",
            value=None,
            reasons=(Reason("unmatched_collectives", "matched by order alone"),),
        )
        results = {**found.results, "straggler_lag": result}
        app.scene = replace(app.scene, findings=replace(found, results=results))
        await typed(pilot, "l")

        assert await appears(pilot, "lags not known")
        assert await appears(pilot, "not proven to be the same on all ranks")
        assert not shows(app, "◀ last")
        assert not shows(app, "lag 100us")
        rows = [line for line in pane_text(app).splitlines() if line.startswith((" r", "▶r"))]
        assert any("·" in line for line in rows)

        await typed(pilot, "4")
        await settle(pilot)
        assert await appears(pilot, "bytes")
        assert not shows(app, " lag ")


async def test_tabs_of_the_overview_have_names_at_80_columns(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert screen(app)[1].split()[-2:] == ["$", "Ranks"]


def test_ranks_that_have_no_room_are_counted() -> None:
    job = scene(pane="overview")

    assert first_screen._ranks(job, 1, None).note == "1 of 8 ranks, $ lists all"
    assert first_screen._ranks(job, 9, None).note == "8 ranks"


def test_a_floor_of_doubtful_clocks_does_not_set_the_top_of_the_scale() -> None:
    floor, lags = 8_340_000, np.array([1_000, 9_000_000, 40_000_000], np.int64)

    top = scale_top_ns(lags, floor)

    assert top == 40_000_000
    assert levels(lags, floor, top).tolist() == [0, 1, 7]
    assert scale_top_ns(lags[:1], 100_000) == 10_000_000


def test_parts_too_small_for_the_bar_leave_a_legend_on_one_line() -> None:
    parts = [
        Part("compute", "compute", "67 %", 0.67),
        Part("waiting", "waiting", "9.1 %", 0.091),
        Part("transfer", "transfer", "6.4 %", 0.064),
        Part("bubble", "bubble", "16 %", 0.16),
        Part("copies", "copies", "less than 0.1 %", 0.0002),
        Part("idle", "idle", "1.1 %", 0.011),
    ]

    assert legend_rows(parts, 77) == [[0, 1, 2, 3, 5]]
    assert legend_rows(parts, 120) == [[0, 1, 2, 3, 4, 5]]
