"""The view as a command line, as csv and as json."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fakes import Plan, full_job, own_changed, scene
from msgspec.structs import replace

from ccltui.metrics.result import Reason
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.window import Window
from ccltui.tui.engine.analysis import answer
from ccltui.tui.export import (
    Export,
    command_line,
    export_to,
    free_name,
    rows_of,
    suggestion,
    tabular,
    take_picture,
    write_rows,
)
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.panes.events import event_query
from ccltui.tui.panes.metrics import METRICS as PANE
from ccltui.tui.state.pane_states import EVENTS, METRIC, METRICS, OVERVIEW, TIMELINE
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Area, Drawer
from ccltui.tui.state.wanted_queries import answered


def test_a_command_line_for_each_pane() -> None:
    options = ExplorerOptions()
    listed = own_changed(scene(pane=METRICS), PANE.own, chosen="step_ms")

    assert command_line(listed, options) == "ccltui /nowhere/run-0421 --metric step_ms"
    assert command_line(scene(), options) == (
        "ccltui /nowhere/run-0421 --metric straggler_lag --group 'default_pg 0-7'"
    )
    # Its numbers are of all groups, whatever communicator the cursor is in.
    assert command_line(scene(pane=TIMELINE), options) == (
        "ccltui /nowhere/run-0421 --metric comm_comp_overlap"
    )
    detail = scene()
    detail = detail.with_state(replace(detail.state, drawer=Drawer()))
    assert " --metric straggler_cause " in command_line(detail, options)


def test_the_filter_and_the_options_are_part_of_it() -> None:
    found = scene(pane=OVERVIEW)
    chosen = ViewOptions(Window(10_000_000, None), (2, 5), frozenset({0, 1, 2, 7}))
    session = replace(found.session, filter=chosen, path="/data/run 1; rm")
    options = ExplorerOptions(
        view=ViewOptions(raw_clocks=True, profile_mode="torch"), rank_map={"a.json": 3}
    )

    words = shlex.split(command_line(replace(found, session=session), options))

    assert words == [
        *("ccltui", "/data/run 1; rm", "--metric", "findings", "--window=10ms/"),
        *("--steps", "2-5", "--ranks", "0-2,7", "--rank-map", "3=a.json"),
        *("--profile-mode", "torch", "--raw-clocks"),
    ]


def test_the_measured_area_is_its_window() -> None:
    found = scene(pane=TIMELINE)
    found = found.with_state(replace(found.state, area=Area(1_000_000, 3_000_000)))

    assert " --window=1ms/3ms" in command_line(found, ExplorerOptions())


def test_collectives_as_csv(tmp_path: Path) -> None:
    target = tmp_path / "lag.csv"

    count = write_rows(scene(), str(target))

    with target.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert (count, len(rows)) == (84, 84)
    assert rows[40]["type"] == "AllReduce"
    assert rows[40]["last"] == "5"
    assert rows[40]["lag_ns"] == rows[40]["late_ns_5"] == "12023757"


def test_a_metric_rank_by_rank_as_json(tmp_path: Path) -> None:
    found = own_changed(scene(pane=METRIC), PANE.own, chosen="step_ms")
    target = tmp_path / "steps.json"

    write_rows(found, str(target))

    rows = json.loads(target.read_text())
    assert rows[0] == {"rank": None, "value": 18.82, "step_ms": None, "std": None, "n": None}
    assert [row["rank"] for row in rows[1:]] == list("01234567")
    assert rows[6]["step_ms"] == 19.0


def test_every_metric_with_its_unit_as_json(tmp_path: Path) -> None:
    target = tmp_path / "metrics.json"

    write_rows(scene(pane=OVERVIEW), str(target))

    rows = {row["metric"]: row for row in json.loads(target.read_text())}
    assert list(rows) == ["total_calls", "step_ms", "straggler_lag", "findings", "tokens"]
    step = rows["step_ms"]
    assert (step["label"], step["value"], step["unit"]) == ("step time", 18.82, "ms")
    assert (step["min"], step["min_rank"], step["max"], step["max_rank"]) == (
        18.8,
        "r0",
        19.0,
        "r2",
    )
    assert step["window"] == "step"
    assert (rows["tokens"]["value"], rows["tokens"]["reason"]) == (None, "no workload card here")


def listed() -> Scene:
    """Events with their list."""
    found = scene(pane=EVENTS)
    query = event_query(found)
    assert query is not None
    return answered(found, answer(View(full_job(Plan())), found, query))


def test_listed_events() -> None:
    rows = list(rows_of(listed()))

    assert len(rows) == 84
    assert rows[40]["name"] == "AllReduce default_pg 0-7"
    assert (rows[40]["rank"], rows[40]["k"], rows[40]["step"]) == ("0", 40, 2)


def test_files_are_never_replaced_and_bad_names_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert suggestion(scene()) == "ccltui-alignment-1.csv"
    Path("ccltui-alignment-1.csv").touch()
    assert suggestion(scene()) == "ccltui-alignment-2.csv"
    assert free_name("picture", ".svg") == "picture-1.svg"

    assert export_to("a.json", scene()) == Export("a.json")
    for text, why in (
        ("ccltui-alignment-1.csv", "is there already"),
        ("a.txt", "must end in .csv or .json"),
        ("none/a.csv", "does not exist"),
    ):
        with pytest.raises(GrammarError, match=why):
            export_to(text, scene())
    with pytest.raises(GrammarError, match="nothing is in view"):
        export_to("a.csv", scene(Plan(ranks=1)))


def test_a_planted_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ccltui-alignment-1.csv").symlink_to("elsewhere")

    assert suggestion(scene()) == "ccltui-alignment-2.csv"
    with pytest.raises(GrammarError, match="is there already"):
        export_to("ccltui-alignment-1.csv", scene())
    with pytest.raises(FileExistsError):  # planted after the name was chosen
        write_rows(scene(), "ccltui-alignment-1.csv")
    assert not Path("elsewhere").exists()


class Screen:
    """An application as far as its picture goes."""

    def export_screenshot(self, *, title: str | None = None) -> str:
        return f"<svg/>{title or ''}"


def test_a_picture_is_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ccltui-alignment-1.svg").symlink_to("elsewhere")
    app: Any = Screen()

    assert take_picture(app, scene()).said == "picture in ccltui-alignment-2.svg"
    assert Path("ccltui-alignment-2.svg").read_text() == "<svg/>"
    monkeypatch.setattr("ccltui.tui.export.free_name", lambda *_: "ccltui-alignment-1.svg")
    assert take_picture(app, scene()).notice == "ccltui-alignment-1.svg: File exists"
    assert not Path("elsewhere").exists()


def hostile() -> Scene:
    """Collectives of a communicator whose name attacks what prints it."""
    found = scene()
    assert found.communicator is not None
    communicators = [
        replace(one, name=f"=cmd()\t\x1b\u200b{one.name}")
        for one in found.findings.communicators or ()
    ]
    return replace(found, findings=replace(found.findings, communicators=tuple(communicators)))


def test_names_are_escaped_and_compute_nothing(tmp_path: Path) -> None:
    target = tmp_path / "a.csv"

    write_rows(hostile(), str(target))
    write_rows(hostile(), str(tmp_path / "a.json"))

    with target.open(newline="") as file:
        first = next(csv.DictReader(file))
    assert first["communicator"].startswith(r"'=cmd()\x09\x1b\u200b")
    assert "\x1b" not in (tmp_path / "a.json").read_text()
    assert json.loads((tmp_path / "a.json").read_text())[0]["communicator"].startswith("=cmd()\t")
    assert tabular(hostile())[0].splitlines()[1].startswith(r"'=cmd()\x09\x1b\u200b")


def test_a_command_line_has_no_key_that_a_line_editor_acts_on() -> None:
    path = "/data/it's\x03\n\x1b[201~\u202e\\x"
    found = scene(pane=OVERVIEW)
    found = replace(found, session=replace(found.session, path=path))

    line = command_line(found, ExplorerOptions())

    assert line.isprintable()
    shell = subprocess.run(
        ["bash", "-c", f'set -- {line}; printf %s "$2"'], capture_output=True, check=True
    )
    assert shell.stdout.decode() == path


def test_numbers_of_ranks_that_are_partly_read_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = scene()
    job = whole.session.job
    assert job is not None
    part = replace(job, ranks=(replace(job.ranks[0], read_share=0.5), *job.ranks[1:]))
    begun = replace(whole, session=replace(whole.session, job=part))
    assert next(rows_of(whole), None) is not None

    assert list(rows_of(begun)) == []
    with pytest.raises(GrammarError, match="only partly read"):
        export_to("a.csv", begun)

    # The rank is there, what is shown was computed before.
    told = whole.findings.results
    name, result = next(iter(told.items()))
    reason = Reason("partly_read", "1 of 4 ranks are partly read: 50.0% of rank 0")
    late = {**told, name: replace(result, reasons=(reason,))}
    stale = replace(whole, findings=replace(whole.findings, results=late))
    assert list(rows_of(stale)) == []
