"""A directory that is followed: files come and grow, and the panes keep their place."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from explorers import Settle, Start, appears, until

from ccltui.demo import Spec, write_job
from ccltui.demo.hung_job import write_hung
from ccltui.report.gates import parse_gate
from ccltui.tui.app import Explorer
from ccltui.tui.engine.analysis import Analyst
from ccltui.tui.engine.loader import load_or_follow, run_load
from ccltui.tui.options import FollowSettings
from ccltui.tui.state.answers import Findings
from ccltui.tui.state.finding_rows import result_of

INTERVAL_S = 0.1
"""The shortest that the command line allows."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("followed") / "job"
    write_job(path, Spec.quiet(tp=2, pp=1, steps=3, layers=2, gpus_per_node=2))
    return path


def traces(path: Path) -> list[Path]:
    return sorted(path.glob("kineto*"))


def put(source: Path, folder: Path) -> Path:
    """Copy a file that was written long ago."""
    folder.mkdir(exist_ok=True)
    target = folder / source.name
    shutil.copy(source, target)
    os.utime(target, (1e9, 1e9))
    return target


def is_measured(app: Explorer, ranks: int) -> bool:
    """Whether so many ranks are loaded, and everything is computed of them."""
    session, findings = app.scene.session, app.scene.findings
    loaded = session.phase == "ready" and session.ranks_loaded == ranks
    return loaded and findings.complete and findings.generation == session.generation


def is_waiting_for(app: Explorer, *names: str) -> bool:
    followed = app.scene.followed
    last = None if followed is None else followed.last
    return last is not None and set(last.waiting) == set(names)


def follower(start: Start, path: Path, store: Path, **settings: Any) -> Explorer:
    follow = FollowSettings(interval_s=INTERVAL_S, **settings)
    return start(load_or_follow, path=str(path), analyst=Analyst, follow=follow, cache_dir=store)


def numbers(findings: Findings) -> dict[str, str]:
    """All results as text."""
    return {name: repr(result) for name, result in findings.results.items()}


async def test_files_that_come_enter_and_the_end_equals_a_cold_open(
    start: Start, settle: Settle, whole: Path, tmp_path: Path
) -> None:
    path, (first, second, *rest) = tmp_path / "job", traces(whole)
    app = follower(start, path, tmp_path / "store")
    async with app.run_test(size=(120, 40)) as pilot:
        assert await appears(pilot, "looked ")
        put(first, path)
        await until(pilot, lambda: is_measured(app, 1), "the first rank")
        put(second, path)
        await until(pilot, lambda: is_measured(app, 2), "the second rank")
        assert await appears(pilot, "unchanged since ")
        await pilot.press("3", "w", "w", "d", "j")
        before = app.scene.state
        assert before.selection.rank == "1"
        for one in rest:
            put(one, path)
        await until(pilot, lambda: is_measured(app, 4), "all ranks")
        after = app.scene.state
        assert (after.pane, after.selection.rank) == (before.pane, before.selection.rank)
        assert after.time.cell_ns == before.time.cell_ns
        assert app.scene.session.files.keys() == {one.name for one in traces(whole)}
        followed = numbers(app.scene.findings)
    cold = start(run_load, path=str(path), analyst=Analyst, cache_dir=tmp_path / "other")
    async with cold.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert numbers(cold.scene.findings) == followed
        assert cold.scene.session.job is not None
        assert app.scene.session.job is not None
        assert cold.scene.session.job.discovery == app.scene.session.job.discovery
        assert cold.scene.session.files == app.scene.session.files


async def test_a_trace_that_is_still_written_waits(
    start: Start, whole: Path, tmp_path: Path
) -> None:
    path, (first, second, *_) = tmp_path / "job", traces(whole)
    put(first, path)
    cut = put(second, path)
    data = second.read_bytes()
    cut.write_bytes(data[: len(data) // 2])
    os.utime(cut, (1e9, 1e9))
    app = follower(start, path, tmp_path / "store")
    async with app.run_test(size=(120, 40)) as pilot:
        await until(
            pilot,
            lambda: is_measured(app, 1) and is_waiting_for(app, second.name),
            "one rank, and one that waits",
        )
        assert await appears(pilot, "1 file waits")
        cut.write_bytes(data)
        await until(
            pilot, lambda: is_measured(app, 2) and is_waiting_for(app), "both ranks are whole"
        )


async def test_files_without_an_end_are_read_once_the_directory_is_idle(
    start: Start, whole: Path, tmp_path: Path
) -> None:
    path, (first, second, *_) = tmp_path / "job", traces(whole)
    put(first, path)
    cut = put(second, path)
    cut.write_bytes(second.read_bytes()[:-2000])
    os.utime(cut, (1e9, 1e9))
    app = follower(start, path, tmp_path / "store", until_idle_s=0.3)
    async with app.run_test(size=(120, 40)) as pilot:
        assert await appears(pilot, "no longer followed: nothing changed for 300 ms")
        await until(pilot, lambda: is_measured(app, 2), "the cut trace is read")


async def test_a_dump_that_grows_changes_the_answer(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "hung"
    write_hung(tmp_path / "all", seed=1, fault="lost_file", answer=tmp_path / "answer.json")
    late = "_dump_2.json"
    for one in (tmp_path / "all").iterdir():
        if one.name != late:
            put(one, path)
    app = follower(start, path, tmp_path / "store")

    def headline() -> str:
        found = result_of(app.scene)
        return "" if found is None else str(found.details.get("headline"))

    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: headline().startswith("Ranks 2 and 3 left no dump"), "no dump")
        data = (tmp_path / "all" / late).read_bytes()
        with (path / late).open("wb", buffering=0) as file:
            file.write(data[: len(data) // 2])
            await until(pilot, lambda: "1 new" in told(app), "half of a dump is seen")
            file.write(data[len(data) // 2 :])
        await until(pilot, lambda: headline().startswith("Rank 2 never entered"), "all dumps")


def told(app: Explorer) -> str:
    """What the last change was, in words."""
    followed = app.scene.followed
    changed = None if followed is None else followed.changed
    return "" if changed is None else changed.told()


async def test_an_alert_is_shown_and_told_once(start: Start, whole: Path, tmp_path: Path) -> None:
    path, (first, second, *_) = tmp_path / "job", traces(whole)
    put(first, path)
    told = tmp_path / "told"
    script = "import os,sys; open(sys.argv[1],'a').write(os.environ['CCLTUI_ALERT']+'\\n')"
    app = follower(
        start,
        path,
        tmp_path / "store",
        alerts=(parse_gate("coll_call_num > 1"), parse_gate("coll_call_num < 1")),
        command=f'{sys.executable} -c "{script}" {told}',
    )
    async with app.run_test(size=(160, 40)) as pilot:
        assert await appears(pilot, "alert: coll_call_num > 1 (it is ")
        await pilot.press("j")
        assert await appears(pilot, "! coll_call_num > 1")
        put(second, path)
        await until(pilot, lambda: is_measured(app, 2), "the second rank")
        await until(pilot, told.exists, "the command has run")
        followed = app.scene.followed
        assert followed is not None
        assert followed.alerted
    assert told.read_text() == "coll_call_num > 1\n"


async def test_alerts_do_not_depend_on_the_part_in_view(
    start: Start, whole: Path, tmp_path: Path
) -> None:
    calls = "coll_call_num > 1"
    app = follower(start, whole, tmp_path / "store", alerts=(parse_gate(calls),))
    async with app.run_test(size=(160, 40)) as pilot:
        await until(pilot, lambda: is_measured(app, 4), "all ranks")
        session = app.scene.session
        app.replace_session(session.filtered(session.filter.changed(ranks=frozenset({7}))))
        await until(
            pilot,
            lambda: (
                app.scene.findings.generation == app.scene.session.generation
                and app.scene.findings.complete
            ),
            "nothing is measured",
        )
        await pilot.pause(0.2)
        followed = app.scene.followed
        assert followed is not None
        assert followed.alert_text() == calls


async def test_stopped_before_anything_came(start: Start, tmp_path: Path) -> None:
    app = follower(start, tmp_path / "later", tmp_path / "store")
    async with app.run_test(size=(120, 40)) as pilot:
        assert await appears(pilot, "looked ")
        await pilot.press("escape")
        assert await appears(pilot, "no longer followed: loading was stopped")
