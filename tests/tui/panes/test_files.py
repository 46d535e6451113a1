"""Files: captures to switch to, and the state of every file."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from explorers import Settle, Start
from fakes import Plan, own_changed, trace
from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.metrics.runs.completeness import Completeness, RunRow
from ccltui.parsers.columns import Note, RankTrace, SourceFile
from ccltui.parsers.discovery.discover import Capture, Discovery, FoundFile
from ccltui.parsers.ingest.load import Failed
from ccltui.parsers.job import Job
from ccltui.tui.action_list import by_id
from ccltui.tui.engine.messages import Fact, FilesRead, JobOpened, LoadEnded
from ccltui.tui.moves import cursor, loss_list
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.panes import first_screen, runs_and_machines
from ccltui.tui.panes.files import FILES as PANE
from ccltui.tui.panes.files import file_rows
from ccltui.tui.panes.runs_and_machines import RunsQuery
from ccltui.tui.state.answers import Answered, Findings
from ccltui.tui.state.pane_states import FILES, OVERVIEW, RUNS
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import FileRow, Session
from ccltui.tui.state.view_state import ViewState

PLAN = Plan(ranks=2)


def found(path: str, capture: str = "", rank: int | None = None, **more: object) -> FoundFile:
    """A file of 4 MB."""
    kind = str(more.pop("kind", "kineto"))
    return FoundFile(
        path,
        f"/nowhere/{path}",
        kind,
        4_000_000,
        rank=rank,
        capture=capture,
        **more,  # type: ignore[arg-type]
    )


def two_captures(chosen: str = "iteration_6") -> Job:
    """A directory of two iterations, an archive and a repeated file."""
    files = {
        name: tuple(found(f"{name}/rank{rank}.json", name, rank) for rank in range(2))
        for name in ("iteration_5", "iteration_6")
    }
    captures = tuple(
        Capture(name, int(name[-1]), files[name], (0, 1), 2, complete=name != "iteration_5")
        for name in files
    )
    others = (
        found("old.tgz", kind="archive", problem="unpack it first"),
        found("copy.json", duplicate_of="iteration_6/rank0.json"),
        found("card.yaml", kind="workload_card"),
    )
    everything = (*files["iteration_5"], *files["iteration_6"], *others)
    discovery = Discovery("/nowhere/run", everything, captures)
    return Job("/nowhere/run", discovery, discovery.choose(capture=chosen))


def shown(job: Job, session: Session) -> dict[str, FileRow]:
    """Rows by name."""
    return {row.cells[0]: row for row in file_rows(replace(session, job=job))}


def test_captures_come_first_and_say_which_is_open() -> None:
    job = two_captures()
    rows = shown(job, Session("/nowhere/run").opened(job))

    assert list(rows)[:2] == ["iteration_5", "iteration_6"]
    assert rows["iteration_5"].cells[1:] == (
        *("capture", "2 of 2", "8 MB", "enter opens it, ranks are missing"),
    )
    assert rows["iteration_5"].capture == "iteration_5"
    assert rows["iteration_6"].cells[4] == "open"
    assert rows["iteration_6"].capture is None


def test_files_say_why_they_are_not_read() -> None:
    job = two_captures()
    rows = shown(job, Session("/nowhere/run").opened(job))

    assert rows["old.tgz"].cells[4] == "x unpack it first"
    assert rows["old.tgz"].ink is Ink.ERROR
    assert rows["copy.json"].cells[4] == "repeats iteration_6/rank0.json"
    assert rows["card.yaml"].cells[4] == "read beside traces"
    assert rows["iteration_5/rank0.json"].cells[4] == "in capture iteration_5: enter opens it"
    assert rows["iteration_5/rank0.json"].capture == "iteration_5"


def test_files_of_the_open_capture_are_queued_read_done_cut_off_or_failed() -> None:
    job = two_captures()
    first, second = (file.path for file in job.capture.files)
    session = Session("/nowhere/run").opened(job)
    assert shown(job, session)[first].cells[4] == "queued"

    session = session.progressed({first: 1_000_000})
    assert shown(job, session)[first].cells[4] == "reading 25 %, 1 MB"

    note = Note("truncated_trace", "cut off at byte 9")
    whole = trace(PLAN, 0, (note,))
    job = job.with_rank(replace(whole, source=replace_path(whole, first)))
    job = job.with_failure(Failed(second, "not JSON"))
    session = session.with_job(job, {first: "", second: "not JSON"})
    rows = shown(job, session)
    assert (rows[first].cells[4], rows[first].ink) == ("! cut off at byte 9", Ink.WARNING)
    assert (rows[second].cells[4], rows[second].ink) == ("x not JSON", Ink.ERROR)


def test_a_file_whose_beginning_is_shown_says_how_much_of_it_that_is() -> None:
    job = two_captures()
    first, second = (file.path for file in job.capture.files)
    whole = trace(PLAN, 0, ())
    source = replace_path(whole, first)
    begun = job.with_rank(replace(whole, source=source, read_share=0.014))
    session = Session("/nowhere/run").opened(job).with_job(begun, {first: ""})

    rows = shown(begun, session)
    assert (rows[first].cells[4], rows[first].ink) == ("! 1.4 % is shown; queued", Ink.WARNING)
    assert rows[second].cells[4] == "queued"
    reading = shown(begun, session.progressed({first: 1_000_000}))
    assert reading[first].cells[4] == "! 1.4 % is shown; reading 25 %, 1 MB"
    done = begun.with_rank(replace(whole, source=source))
    assert shown(done, session.with_job(done, {first: ""}))[first].cells[4] == "done"


def replace_path(one: RankTrace, path: str) -> SourceFile:
    """The source of a trace under another path."""
    return msgspec.structs.replace(one.source, path=path)


def test_one_capture_is_no_choice() -> None:
    job = two_captures()
    alone = replace_captures(job)
    scene = Scene(Session("/nowhere/run").opened(alone), ViewState(pane=FILES))

    assert [row.cells[1] for row in file_rows(scene.session)][:2] == ["kineto", "kineto"]
    assert by_id("open.capture").why_not(scene) == "this file is not in another capture"
    empty = Scene(Session("x"), ViewState(pane=FILES))
    assert by_id("open.capture").why_not(empty) == "nothing is found yet"
    assert "as soon as" in PANE.paint(empty, 10, 80).row_text(1)


def replace_captures(job: Job) -> Job:
    """The job as if its capture were the only one."""
    files = (*job.capture.files, *job.discovery.files[4:])
    return replace(job, discovery=Discovery("/nowhere/run", files, (job.capture,)))


def load_two(
    path: str, options: ExplorerOptions, post: Callable[[Fact], object], cancelled: object
) -> None:
    """Load a directory of two captures, of which one is chosen."""
    del path, cancelled
    job = two_captures(options.capture or "iteration_6")
    post(JobOpened(job))
    for rank, file in enumerate(job.capture.files):
        one = trace(PLAN, rank)
        job = job.with_rank(replace(one, source=replace_path(one, file.path)))
        post(FilesRead(job, {file.path: ""}))
    post(LoadEnded(stopped=False))


async def test_enter_opens_another_capture(start: Start, settle: Settle) -> None:
    app = start(load_two)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await pilot.press("5", "enter")
        await pilot.pause()
        await settle(pilot)

        job = app.scene.session.job
        assert job is not None
        assert job.capture.name == "iteration_5"
        assert app.scene.state.pane == FILES
        assert len(app.scene.findings.lanes) == 2
        await pilot.press("2")
        await pilot.pause()
        assert app.scene.communicator is not None


def listed(found: Scene, *names: str) -> Scene:
    """The scene in Runs, with runs of these names."""
    done = Completeness("complete", (), (), ())
    absent = (None,) * 2
    rows = [
        RunRow(name, done, 2, *absent[:1], "", *absent, "", *absent, (), (), None, "", None, ())
        for name in names
    ]
    query = RunsQuery(found.session.path)
    answers = found.answers.with_result(Answered(query, rows))
    session = replace(found.session, has_runs=True)
    return replace(found, session=session, answers=answers).with_state(
        replace(found.state, pane=RUNS)
    )


def test_a_run_is_the_capture_in_its_folder() -> None:
    found = Scene(Session("x").opened(two_captures()))

    def capture(*names: str) -> str | None:
        return runs_and_machines.capture_of_run(listed(found, *names))

    assert capture("iteration_5", "b") == "iteration_5"
    assert capture("iteration", "b") is None
    assert runs_and_machines.why_no_capture(listed(found, "b", "c")) == (
        "no trace was recorded in this run: nothing to open"
    )
    assert runs_and_machines.why_no_capture(found) == "no run is listed yet"
    job = two_captures()
    parts = [msgspec.structs.replace(one, name=f"a/{one.name}") for one in job.discovery.captures]
    discovery = msgspec.structs.replace(job.discovery, captures=tuple(parts))
    nested = Scene(Session("x").opened(replace(job, discovery=discovery)))
    assert runs_and_machines.capture_of_run(listed(nested, "a", "b")) == "a/iteration_6"
    only = msgspec.structs.replace(parts[0], name="")
    discovery = msgspec.structs.replace(job.discovery, captures=(only,))
    whole = Scene(Session("x").opened(replace(job, discovery=discovery)))
    assert runs_and_machines.capture_of_run(listed(whole, "run")) == ""


async def test_enter_opens_the_traces_of_a_run(start: Start, settle: Settle) -> None:
    app = start(load_two)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        for at, name in enumerate(("iteration_6", "iteration_5")):
            app._asked[RunsQuery] = RunsQuery(app.scene.session.path)
            shown = listed(app.scene, "iteration_6", "iteration_5")
            app.scene = own_changed(shown, runs_and_machines.RUNS.own, row=at)
            loads = app._background.loads
            await pilot.press("enter")
            await pilot.pause()
            await settle(pilot)

            job = app.scene.session.job
            assert job is not None
            assert (job.capture.name, app._background.loads - loads) == (name, at)
            assert app.scene.state.pane == OVERVIEW


def test_a_directory_without_a_file_says_so() -> None:
    nothing = Job("/nowhere", Discovery("/nowhere", (), ()), Capture("", None, (), (), None, True))
    looked = Session("x").opened(nothing).finished(stopped=False)
    empty = Scene(looked, ViewState(pane=FILES))

    assert PANE.paint(empty, 4, 60).row_text(1).strip() == "No file here."
    assert cursor.no_collectives(empty) == "no rank is loaded"
    shown = first_screen.paint(empty, 12, 80)
    text = " ".join(shown.row_text(y).strip() for y in range(12))
    assert "No trace that can be shown." in text
    assert "Looked, here and below, for traces of PyTorch (.json, also .gz)" in text
    assert "Found no file." in text
    assert "Check the path. ccltui demo writes a job to look at" in text


def test_records_without_a_trace_are_said_to_be_computed_until_their_findings_are_there() -> None:
    found = FoundFile("a.log", "/a.log", "nccl_inspector", 9)
    capture = Capture("", None, (), (), None, complete=True)
    looked = Session("x").opened(Job("/x", Discovery("/x", (found,), (capture,)), capture))
    waiting = Scene(looked.finished(stopped=False))

    def shown(at: Scene) -> str:
        return " ".join(first_screen.paint(at, 12, 80).row_text(y).strip() for y in range(12))

    assert "No trace here. Computing what the other files tell." in shown(waiting)
    assert loss_list.why_no_evidence(waiting) == "still computing"
    computed = replace(waiting, findings=Findings(complete=True))
    assert "No trace that can be shown." in shown(computed)
    assert loss_list.why_no_evidence(computed) == "no rank is loaded"


def test_a_long_state_leaves_an_ellipsis() -> None:
    job = two_captures()
    picture = PANE.paint(Scene(Session("x").opened(job), ViewState(pane=FILES)), 12, 70)

    assert [picture.row_text(y).rstrip()[-1] for y in (1, 3)] == ["…", "…"]


def test_what_is_written_are_the_listed_files() -> None:
    found = Scene(Session("x").opened(two_captures()), ViewState(pane=FILES))
    filtered = found.with_state(PANE.with_row_pattern(found, "old"))

    assert list(PANE.records(filtered)) == [
        {
            "file": "old.tgz",
            "kind": "archive",
            "rank": None,
            "size_bytes": 4_000_000,
            "state": "x unpack it first",
        }
    ]
