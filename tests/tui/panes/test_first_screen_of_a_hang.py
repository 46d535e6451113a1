"""The first screen of a job that hangs: the whole answer, for no other region needs the room."""

from __future__ import annotations

from pathlib import Path

from explorers import Start, appears, pane_text

from ccltui.demo.hung_job import write_hung
from ccltui.tui.engine.loader import run_load


async def test_who_waits_for_whom_is_on_the_smallest_screen(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "hung"
    write_hung(folder, seed=1, fault="lost_file", answer=tmp_path / "answer.json")
    app = start(run_load, "256", str(folder))
    async with app.run_test(size=(80, 24)) as pilot:
        assert await appears(pilot, "Next:")
        text = " ".join(line.strip(" │") for line in pane_text(app).splitlines())

    assert "…" not in text
    assert "wait for rank" in text
    assert "left no dump" in text
