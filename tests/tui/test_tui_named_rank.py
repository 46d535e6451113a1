"""Every pane names whom the first finding names, with its confidence."""

from __future__ import annotations

from explorers import Settle, Start, appears, pane_text, screen, shows, typed

from ccltui.metrics.confidence import sure_text
from ccltui.tui.panes.ranks_pane import RANKS as PANE
from ccltui.tui.state.finding_rows import findings, naming
from ccltui.tui.state.pane_states import ALIGNMENT


async def test_ranks_quote_the_finding_before_who_comes_last(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await typed(pilot, "$")
        await settle(pilot)
        first = findings(app.scene)[0]
        (label,) = first["where"]["ranks"]

        lines = pane_text(app).splitlines()
        assert lines[0].startswith(f" Finding 1: {first['label']} (r{label}; confidence ")
        assert first["sure"]["who"] in lines[0]
        assert lines[1].startswith(" Last to arrive: ")
        row = PANE.rows(app.scene)[0]
        assert row.number == 1
        assert row.rank is not None
        assert row.rank.label == label
        assert any(line.startswith("▶") and "◀ 1" in line for line in lines)


async def test_steps_name_whom_the_finding_names(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(160, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "6")
        await settle(pilot)
        first = findings(app.scene)[0]
        (label,) = first["where"]["ranks"]

        assert not shows(app, "  nobody is named")
        keeps = f"r{label} keeps the others waiting" if shows(app, "keeps the others") else ""
        assert await appears(pilot, keeps or f"finding 1: {first['label']} (r{label}; confidence ")


async def test_the_drawer_is_as_sure_as_the_finding_it_shows(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        await typed(pilot, "!")
        await settle(pilot)
        first = findings(app.scene)[0]

        assert app.scene.state.pane == ALIGNMENT
        assert naming(app.scene) is first
        text = " ".join(" ".join(screen(app)).split())
        assert "why late: " in text
        assert f"confidence: {sure_text(first['sure'])}" in text

        await typed(pilot, "Z")
        await settle(pilot)
        text = " ".join(" ".join(screen(app)).split())
        assert "arrived last at" in text
        assert f"confidence: {sure_text(first['sure'])}" in text
