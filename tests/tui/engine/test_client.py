"""The server process: equal numbers, cancelled runs, restarts, queries."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Plan, full_job
from msgspec.structs import replace

from ccltui.demo import Spec, write_job
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import ColumnFile
from ccltui.parsers.ingest.load import Loaded, detach_columns, load
from ccltui.parsers.job import Job, open_job, start_job
from ccltui.parsers.store import stored_columns
from ccltui.parsers.store.stored_columns import StoredColumns, map_columns
from ccltui.parsers.window import parse_window
from ccltui.tui.engine import messages
from ccltui.tui.engine import server as analysis_process
from ccltui.tui.engine.analysis import Analyst
from ccltui.tui.engine.array_transfer import Channel
from ccltui.tui.engine.client import AGAIN, LATER, TWICE, RemoteAnalyst
from ccltui.tui.engine.messages import Fact, FindingsReady, Problem
from ccltui.tui.state.answers import Answered, Findings
from ccltui.tui.state.pane_states import COLLECTIVES, Among, Listing, Search
from ccltui.tui.state.query_kinds import (
    BlockQuery,
    ChainQuery,
    DetailQuery,
    EventQuery,
    HitQuery,
    HostQuery,
    KernelQuery,
    LaunchQuery,
    StepsQuery,
    StreamQuery,
    of_traces,
)
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session

LONGEST_S = 60.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("remote") / "job"
    write_job(directory, Spec(tp=1, steps=3, layers=2, gpus_per_node=2, stragglers=()))
    return directory


@pytest.fixture(scope="module")
def store(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with all columns of the job."""
    directory = tmp_path_factory.mktemp("store")
    open_job(folder, cache_dir=directory)
    return directory


@pytest.fixture(scope="module")
def job(folder: Path, store: Path) -> Job:
    """The job, its columns mapped."""
    return open_job(folder, cache_dir=store)


@pytest.fixture(scope="module")
def shared_process() -> Iterator[RemoteAnalyst]:
    """One process for all tests that do not end it."""
    analyst = RemoteAnalyst()
    yield analyst
    analyst.close()


@pytest.fixture
def own_process() -> Iterator[RemoteAnalyst]:
    """A process for one test, which ends it."""
    analyst = RemoteAnalyst()
    yield analyst
    analyst.close()


def session_of(job: Job, generation: int = 1, chosen: ViewOptions | None = None) -> Session:
    return replace(
        Session(job.path).opened(job),
        phase="ready",
        generation=generation,
        filter=chosen or ViewOptions(),
    )


def never() -> bool:
    return False


class Posted:
    """Facts that were posted."""

    def __init__(self, then: Callable[[Fact], object] = lambda _: None) -> None:
        self.findings: list[Findings] = []
        self.problems: list[str] = []
        self._then = then

    def __call__(self, fact: Fact) -> None:
        if isinstance(fact, FindingsReady):
            self.findings.append(fact.findings)
        if isinstance(fact, Problem):
            self.problems.append(fact.problem)
        self._then(fact)


def whole(analyst: RemoteAnalyst | Analyst, session: Session) -> Findings:
    """All findings, also where the first number is posted in a run of its own."""
    posted = Posted()
    while not analyst.run(session, posted, never):
        pass
    assert posted.problems == []
    assert posted.findings[-1].complete
    return posted.findings[-1]


def pid_of(analyst: RemoteAnalyst) -> int:
    process = analyst._server
    assert process is not None
    pid = process._process.pid
    assert pid is not None
    return pid


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def assert_same(one: Any, other: Any) -> None:
    """Equal records, with arrays in them."""
    assert type(one) is type(other)
    for name in one.__struct_fields__:
        left, right = getattr(one, name), getattr(other, name)
        if isinstance(left, np.ndarray):
            np.testing.assert_array_equal(left, right, err_msg=name)
        elif not callable(left):
            assert left == right, name


def test_numbers_equal_those_of_the_command_line(shared_process: RemoteAnalyst, job: Job) -> None:
    found = whole(shared_process, session_of(job))

    view = View(job)
    expected = {name: metric.run(view) for name, metric in of_traces().items()}
    assert [metric.name for metric in found.metrics] == list(expected)
    assert {n: r.to_document() for n, r in found.results.items()} == {
        n: r.to_document() for n, r in expected.items()
    }
    assert expected["straggler_lag"].status == "ok"


def test_charts_equal_those_of_a_local_analyst(shared_process: RemoteAnalyst, job: Job) -> None:
    there, here = whole(shared_process, session_of(job)), whole(Analyst(), session_of(job))

    assert there.communicators is not None
    assert here.communicators is not None
    assert len(there.communicators) == len(here.communicators) > 1
    for one, other in zip(there.communicators, here.communicators, strict=True):
        assert_same(one, other)
        np.testing.assert_array_equal(one.heat.late_ns, other.heat.late_ns)
    assert list(there.lanes) == list(here.lanes)
    for label, lane in here.lanes.items():
        for track in ("compute", "network", "both"):
            assert_same(getattr(there.lanes[label], track), getattr(lane, track))
    for name in ("steps", "span", "origin_ns", "clock", "nodes", "groups", "harm_ns"):
        assert getattr(there, name) == getattr(here, name)


def test_the_explorer_computes_no_metric(shared_process: RemoteAnalyst, job: Job) -> None:
    found = whole(shared_process, session_of(job))

    with pytest.raises(RuntimeError, match="computes no metric"):
        found.metrics[0].compute(View(job))


def test_answers_equal_those_of_a_local_analyst(shared_process: RemoteAnalyst, job: Job) -> None:
    session, here = session_of(job), Analyst()
    there_scene = Scene(session, findings=whole(shared_process, session))
    here_scene = Scene(session, findings=whole(here, session))
    queries = [
        EventQuery(1, "0", Listing()),
        EventQuery(1, "0", Listing(COLLECTIVES)),
        DetailQuery(1, 0, 3),
        HitQuery(1, Search(Among.TIMES, "1", 0, Listing(), "nccl")),
        StepsQuery(1),
        StreamQuery(1, ("0", "1")),
        KernelQuery(1, "communication"),
        BlockQuery(1, "0", 0),
        HostQuery(1, ("0",)),
        LaunchQuery(1, "0", 1),
        ChainQuery(1, 0, 3),
    ]

    def answer(analyst: RemoteAnalyst | Analyst, scene: Scene, query: Any) -> Any:
        answered = analyst.answer(scene, query)
        assert answered is not None
        assert answered.problem == ""
        return answered.answer

    there = [answer(shared_process, there_scene, query) for query in queries]
    expected = [answer(here, here_scene, query) for query in queries]

    for one, other in zip(there[:2], expected[:2], strict=True):
        np.testing.assert_array_equal(one.start_ns, other.start_ns)
        np.testing.assert_array_equal(one.order, other.order)
        assert [one.name_of(row) for row in range(5)] == [other.name_of(row) for row in range(5)]
    assert_same(there[2].instance, expected[2].instance)
    assert there[2].stops == expected[2].stops
    np.testing.assert_array_equal(there[3].places, expected[3].places)
    np.testing.assert_array_equal(there[4].parts_ns, expected[4].parts_ns)
    for label, streams in expected[5].items():
        for one, other in zip(there[5][label], streams, strict=True):
            assert one.text(int(one.name[0])) == other.text(int(other.name[0])) != ""
            np.testing.assert_array_equal(one.start_ns, other.start_ns)
    assert list(there[6]) == list(expected[6])
    assert_same(there[7], expected[7])
    assert [row.label for row in there[8]["0"].rows] == [r.label for r in expected[8]["0"].rows]
    assert there[8]["0"].note == expected[8]["0"].note
    assert there[9:] == expected[9:]


def test_a_query_about_an_old_generation_has_no_answer(
    shared_process: RemoteAnalyst, job: Job
) -> None:
    scene = Scene(session_of(job), findings=Findings(generation=77))

    assert shared_process.answer(scene, StepsQuery(77)) is None


def test_an_invalid_query_is_answered_by_a_problem(shared_process: RemoteAnalyst, job: Job) -> None:
    session = session_of(job)
    scene = Scene(session, findings=whole(shared_process, session))

    answered = shared_process.answer(scene, EventQuery(1, "0", Listing(pattern="(")))

    assert answered is not None
    assert "error" in answered.problem


def test_another_window_cancels_the_current_run_at_once(
    shared_process: RemoteAnalyst, job: Job
) -> None:
    """No number of the earlier window is posted after another window is requested."""
    whole(shared_process, session_of(job))
    window = parse_window("2ms/9ms")
    stale = Posted()
    asked = iter([False, False])

    assert shared_process.run(session_of(job, 2), stale, lambda: next(asked, True))
    found = whole(shared_process, session_of(job, 3, ViewOptions(window=window)))

    view = View(job, ViewOptions(window=window))
    assert found.generation == 3
    assert all(findings.generation == 2 for findings in stale.findings)
    for name, metric in of_traces().items():
        assert found.results[name].to_document() == metric.run(view).to_document(), name


def test_a_run_cancelled_before_it_begins_posts_nothing(
    shared_process: RemoteAnalyst, job: Job
) -> None:
    posted = Posted()

    assert shared_process.run(session_of(job), posted, lambda: True)
    assert shared_process.run(Session("nothing"), posted, never)
    assert posted.findings == []


def test_the_server_process_ignores_sigint(shared_process: RemoteAnalyst, job: Job) -> None:
    whole(shared_process, session_of(job))
    before = pid_of(shared_process)

    os.kill(before, signal.SIGINT)
    whole(shared_process, session_of(job))

    assert pid_of(shared_process) == before


def test_ranks_whose_files_are_removed_are_computed_locally(
    shared_process: RemoteAnalyst, folder: Path, tmp_path: Path
) -> None:
    open_job(folder, cache_dir=tmp_path / "store")
    gone = open_job(folder, cache_dir=tmp_path / "store")
    shutil.rmtree(tmp_path / "store")
    session = session_of(gone)

    found = whole(shared_process, session)

    assert sorted(found.lanes) == ["0", "1", "2", "3"]
    answered = shared_process.answer(Scene(session, findings=found), StepsQuery(1))
    assert answered is not None
    assert answered.answer is not None
    assert len(answered.answer) == 3


def test_columns_that_the_cache_cannot_hold_are_mapped_by_the_server(
    shared_process: RemoteAnalyst, folder: Path, tmp_path: Path
) -> None:
    blocked = tmp_path / "cache"
    blocked.write_text("a file where the cache should be")
    job = start_job(folder)
    for event in load(job.capture, cache_dir=blocked, jobs=1):
        job = job.with_event(event)
        if isinstance(event, Loaded):
            assert event.trace.place is not None
            assert not event.trace.place.path.is_relative_to(blocked)

    found = whole(shared_process, session_of(job))

    assert shared_process._is_local is False
    assert sorted(found.lanes) == ["0", "1", "2", "3"]
    assert found.results["coll_call_num"].status == "ok"


def test_ranks_in_memory_are_computed_locally(shared_process: RemoteAnalyst) -> None:
    found = whole(shared_process, session_of(full_job(Plan(ranks=2))))

    assert sorted(found.lanes) == ["0", "1"]
    assert shared_process._is_local


def test_a_killed_process_is_reported_and_restarted(own_process: RemoteAnalyst, job: Job) -> None:
    """During a run, while idle, and during a query."""
    killed: list[int] = []

    def kill_once(fact: Fact) -> None:
        if not killed and isinstance(fact, FindingsReady):
            killed.append(pid_of(own_process))
            os.kill(killed[0], signal.SIGKILL)

    posted, session = Posted(kill_once), session_of(job)
    while not own_process.run(session, posted, never):
        pass

    assert posted.problems == [AGAIN]
    assert posted.findings[-1].complete
    assert set(posted.findings[-1].results) == set(of_traces())
    assert pid_of(own_process) != killed[0]

    os.kill(pid_of(own_process), signal.SIGKILL)
    wait_until(lambda: len(posted.problems) == 2)
    assert posted.problems[1] == LATER

    scene = Scene(session, findings=posted.findings[-1])
    answered = own_process.answer(scene, DetailQuery(1, 0, 3))
    assert isinstance(answered, Answered)
    assert answered.problem == ""
    assert answered.answer is not None
    assert answered.answer.instance.number == 0


def test_an_end_right_behind_the_end_of_a_run_is_reported(
    own_process: RemoteAnalyst, job: Job
) -> None:
    posted = Posted()
    own_process.run(session_of(job), posted, never)
    server = own_process._server
    assert server is not None

    together: list[Any] = [messages.RunFinished(1, complete=True), None]
    assert own_process._process(together, server, posted) is True
    assert posted.problems == [LATER]

    with server.replies_to(server.number()) as inbox:
        inbox.put(None)  # nobody takes it
    assert posted.problems == [LATER, LATER]


def test_a_query_waits_for_a_restarted_process_to_compute_again(
    own_process: RemoteAnalyst, job: Job
) -> None:
    """The explorer has the communicators already; the restarted process has not."""
    session = session_of(job)
    scene = Scene(session, findings=whole(own_process, session))
    answers: list[Answered[Any] | None] = []

    def ask(fact: Fact) -> None:
        if isinstance(fact, Problem):
            asking.start()

    asking = threading.Thread(
        target=lambda: answers.append(own_process.answer(scene, DetailQuery(1, 0, 3)))
    )
    process = own_process._server
    assert process is not None
    send = process.send

    def send_and_die(request: Any, descriptor: int | None = None) -> None:
        send(request, descriptor)
        os.kill(pid_of(own_process), signal.SIGKILL)

    process.send = send_and_die  # type: ignore[method-assign]
    own_process.run(session, ask, never)
    asking.join(LONGEST_S)

    (answered,) = answers
    assert answered is not None
    assert answered.problem == ""
    assert answered.answer is not None
    assert answered.answer.instance.row == 3


def test_a_process_killed_repeatedly_is_not_restarted(own_process: RemoteAnalyst, job: Job) -> None:
    def kill(fact: Fact) -> None:
        if isinstance(fact, FindingsReady) and not fact.findings.complete:
            os.kill(pid_of(own_process), signal.SIGKILL)

    posted = Posted(kill)

    assert own_process.run(session_of(job), posted, never)

    assert posted.problems == [AGAIN, TWICE]
    assert posted.findings[-1].complete  # nothing more will be computed
    assert posted.findings[-1].results["coll_call_num"].status == "ok"


SCRIPT = """
import sys, time
from ccltui.tui.engine.server import start_server
if __name__ == "__main__":
    started = start_server()
    print(started.process.pid, flush=True)
    time.sleep(600)
"""


def test_the_server_process_ends_with_a_killed_explorer(tmp_path: Path) -> None:
    script = tmp_path / "explorer.py"
    script.write_text(SCRIPT)
    explorer = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert explorer.stdout is not None
    pid = int(explorer.stdout.readline())
    wait_until(lambda: "python" in str(Path(f"/proc/{pid}/exe").readlink()))

    explorer.kill()
    _, talk = explorer.communicate(timeout=LONGEST_S)

    wait_until(lambda: not Path(f"/proc/{pid}").exists() or "Z" in state_of(pid))
    assert talk == ""


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_a_rank_sent_repeatedly_is_mapped_once(
    store: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped: list[Path] = []

    def counted(place: ColumnFile, descriptor: int | None = None) -> StoredColumns:
        mapped.append(place.path)
        return map_columns(place, descriptor)

    monkeypatch.setattr(stored_columns, "map_columns", counted)
    job = open_job(folder, cache_dir=store)
    place = job.ranks[0].place
    assert place is not None
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server = analysis_process._Server(Channel(theirs), None)
        for number in range(1, 4):
            handed = detach_columns(replace(job.ranks[0], label=f"{number}"))
            assert handed is not None
            server._handle(messages.AddRank(number, handed), None)
            server._handle(messages.SetJob(replace(job, ranks=()), (number,)), None)

    assert mapped == [place.path]
    assert [rank.label for rank in server._ranks.values()] == ["3"]
