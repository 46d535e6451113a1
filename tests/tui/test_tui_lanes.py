"""Unfolded lanes and the chain of causes in a running explorer, on a job with known delays."""

from __future__ import annotations

from pathlib import Path

import pytest
from explorers import Start, appears, pane, pane_text, screen, shows, typed, until
from textual.pilot import Pilot

from ccltui.demo import Spec, write_job
from ccltui.tui.app import Explorer
from ccltui.tui.engine.analysis import Analyst
from ccltui.tui.engine.loader import run_load
from ccltui.tui.moves import drawer
from ccltui.tui.state.pane_states import ALIGNMENT, OVERVIEW, TIMELINE, TIMELINE_STATE


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo: rank 6 waits 12 ms for its data loader in one step."""
    directory = tmp_path_factory.mktemp("demo") / "job"
    write_job(directory, Spec())
    return directory


def opened(start: Start, traces: Path) -> Explorer:
    """An explorer of a directory, read once for all tests, that computes in a thread."""
    cache = traces.with_name("cache")
    return start(load=run_load, path=str(traces), analyst=Analyst, cache_dir=cache)


async def matched(pilot: Pilot[int], *, known: bool = False) -> None:
    """Wait until the collectives of all ranks are matched; ``known``: until metrics are too."""
    app = pilot.app
    assert isinstance(app, Explorer)

    def is_matched() -> bool:
        session, findings = app.scene.session, app.scene.findings
        # Findings of an earlier generation are those of the ranks that were read until then.
        newest = session.phase == "ready" and findings.generation == session.generation
        return newest and findings.is_matched and (findings.complete or not known)

    await until(pilot, is_matched)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_streams_and_host_unfold_below_a_rank(
    start: Start, traces: Path, size: tuple[int, int]
) -> None:
    app = opened(start, traces)
    async with app.run_test(size=size) as pilot:
        await matched(pilot)
        await typed(pilot, "3", "x")
        assert "idle" not in pane_text(app)
        assert "copy" in pane_text(app) or size == (80, 24)  # eight ranks leave no room there

        await typed(pilot, "u")
        assert [label for label in labels(app) if label in {"idle", "s7", "s20"}] == [
            *("idle", "s7", "s20")
        ]
        assert "copy" not in labels(app) or size != (80, 24)

        await typed(pilot, "U")
        unfolded = labels(app)
        assert unfolded[2:5] == ["range", "range 2", "op"] or "1 range" in unfolded
        assert unfolded.index("call") < unfolded.index("idle")
        assert "more ranks" in pane_text(app) or size == (200, 50)
        assert await appears(pilot, "host")

        await typed(pilot, "u", "U")
        assert "idle" not in pane_text(app)


def labels(app: Explorer) -> list[str]:
    """Labels of the rows of the Timeline."""
    return [line[:8].strip(" ▶") for line in pane_text(app).splitlines()[2:]]


async def test_one_key_leads_from_a_late_collective_to_the_host_of_another_rank(
    start: Start, traces: Path
) -> None:
    app = opened(start, traces)
    async with app.run_test(size=(120, 40)) as pilot:
        await matched(pilot)
        await typed(pilot, "2")
        await find_tp_late_by_another_group(pilot)
        await typed(pilot, "Z")

        text = "\n".join(screen(app))
        assert "r4 arrived last at tp 4,5" in text
        assert "← r6 at dp_shard 4,6" in text
        order = ("arrived last", "launched by", "operator", "work before", "waited in", "← r6")
        assert [text.find(part) for part in order] == sorted(text.find(part) for part in order)
        assert "enumerate(DataLoader)" in text
        assert "12.4 ms of the idle time" in text

        await typed(pilot, "G")
        last = len(drawer.chain_events(app.scene)) - 1
        assert app.scene.state.drawer is not None
        assert app.scene.state.drawer.row == last
        await typed(pilot, "k", "k", "enter")
        assert pane(app) == TIMELINE
        assert app.scene.state.selection.rank == "6"
        assert TIMELINE_STATE.of(app.scene.state).hosts == ("6",)
        assert "data load" in pane_text(app)


async def find_tp_late_by_another_group(pilot: Pilot[int]) -> None:
    """Put the cursor on the collective of tp 4,5 at which rank 4 was latest."""
    app = pilot.app
    assert isinstance(app, Explorer)
    names = [one.name for one in app.scene.findings.communicators or ()]
    index = names.index("tp 4,5")
    state = app.scene.state
    communicator = (app.scene.findings.communicators or ())[index]
    app.scene = app.scene.with_state(
        state.select(communicator=index, k=int(communicator.lag_ns.argmax()), rank="4")
    )
    await pilot.pause()


async def test_the_chain_opens_from_a_finding_and_esc_closes_it(start: Start, traces: Path) -> None:
    app = opened(start, traces)
    async with app.run_test(size=(80, 24)) as pilot:
        await matched(pilot, known=True)  # the proof of the verdict comes from other metrics
        assert pane(app) == OVERVIEW
        await typed(pilot, "Z")
        assert pane(app) == ALIGNMENT
        assert await appears(pilot, "── why late: ")
        assert await appears(pilot, "▶arrived")

        await typed(pilot, "escape")
        assert not shows(app, "── why late: ")
        assert not app.scene.state.maximised
        assert app.scene.state.drawer is None


async def test_what_is_no_late_collective_says_so(start: Start, traces: Path) -> None:
    app = opened(start, traces)
    async with app.run_test(size=(100, 30)) as pilot:
        await matched(pilot, known=True)
        await typed(pilot, "G", "Z")
        assert await appears(pilot, "a chain belongs to a finding: select one")
        await typed(pilot, "5", "Z")
        assert await appears(pilot, "Z works in")


async def test_work_without_a_launch_says_so(start: Start) -> None:
    app = start()
    async with app.run_test(size=(120, 40)) as pilot:
        await matched(pilot)
        await typed(pilot, "3", "U")

        assert await appears(pilot, "no launch recorded")
        assert "range" in labels(app)
