"""Paths, bounded answers and the process that answers, without a client."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import multiprocessing.connection
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ccltui.commands.serve_mcp_command import _DESCRIPTION
from ccltui.demo import Spec, write_job
from ccltui.mcp_server import answer_worker
from ccltui.mcp_server.answer_worker import AnswerWorker, RefusedError
from ccltui.mcp_server.job_answers import MAX_BYTES, MAX_LISTED, MAX_TEXT, clipped, paged
from ccltui.mcp_server.roots import Roots
from ccltui.mcp_server.row_answers import QUESTIONS
from ccltui.parsers.errors import GrammarError, NotFoundError, TraceError


def test_paths_stay_below_the_roots(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside / "job", outside):
        folder.mkdir(parents=True)
    (inside / "link").symlink_to(outside)
    (inside / "near").symlink_to(inside / "job")
    roots = Roots([str(inside)])

    assert roots.resolved("job") == str(inside / "job")
    assert roots.resolved(str(inside / "near")) == str(inside / "job")
    for path in ("../out", "link", str(outside), "/", "job/../../out", str(tmp_path / "absent")):
        with pytest.raises(TraceError, match="outside of the directories given by --root") as why:
            roots.resolved(path)
        assert "\n" not in str(why.value)
    with pytest.raises(NotFoundError, match="no such file"):
        roots.resolved("absent")
    with pytest.raises(TraceError, match="NUL"):
        roots.resolved("a\0b")
    with pytest.raises(NotFoundError):
        Roots([str(tmp_path / "absent")])


@pytest.mark.parametrize("to", ["file", "folder"])
def test_a_directory_with_a_link_out_of_the_roots_is_refused(tmp_path: Path, to: str) -> None:
    job, outside = tmp_path / "in" / "job", tmp_path / "out"
    for folder in (job, outside):
        folder.mkdir(parents=True)
    (outside / "rank0.json").write_text('{"traceEvents": []}')
    (job / "x\x1b").symlink_to(outside / "rank0.json" if to == "file" else outside)

    with pytest.raises(TraceError, match="is a link out of the directories") as why:
        Roots([str(tmp_path / "in")]).resolved("job")
    assert "\x1b" not in str(why.value)
    assert Roots([str(tmp_path)]).resolved("in/job") == str(job)


def test_pages_cover_every_row_once_and_are_bounded() -> None:
    rows = [(index, "x" * 300) for index in range(500)]
    seen: list[list[object]] = []
    cursor: int | None = 0
    while cursor is not None:
        page = paged({"a": 1}, ("n", "text"), len(rows), rows.__getitem__, cursor=cursor)
        assert len(json.dumps(page)) < MAX_BYTES + 2000
        assert page["num_rows"] == len(rows)
        seen += page["rows"]
        cursor = page["next_cursor"]

    assert seen == [list(row) for row in rows]
    for wrong in (-1, 501):
        with pytest.raises(GrammarError, match="there are 500 rows"):
            paged({}, ("n",), 500, rows.__getitem__, cursor=wrong)


def test_one_row_that_is_too_large_is_still_answered() -> None:
    page = paged({"head": "y" * MAX_BYTES}, ("n",), 2, lambda _: ["x"], cursor=0)
    assert (len(page["rows"]), page["next_cursor"]) == (1, 1)


def test_texts_and_lists_are_cut_with_what_is_left_out() -> None:
    assert clipped("a" * (MAX_TEXT + 7)).endswith("… (7 more characters)")
    assert clipped({"k": list(range(MAX_LISTED + 2))})["k"][-1] == "… 2 more"
    assert clipped([1, None, "a"]) == [1, None, "a"]


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[AnswerWorker]:
    write_job(tmp_path / "job", Spec(tp=2, steps=2, layers=2, gpus_per_node=2))
    found = AnswerWorker((str(tmp_path),), tmp_path / "cache")
    yield found
    found.stop()


@contextlib.contextmanager
def killed_when_asked(pid: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has been sent a question, and is killed before it answers."""
    os.kill(pid, signal.SIGSTOP)

    def kill_and_wait(ends: list[Any]) -> list[Any]:
        os.kill(pid, signal.SIGKILL)
        return multiprocessing.connection.wait(ends)

    with monkeypatch.context() as patch:
        patch.setattr(answer_worker, "wait", kill_and_wait)
        yield


def test_a_process_that_ends_costs_one_answer(
    worker: AnswerWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = worker.ask("open", {"path": "job"})
    pid = worker._process.pid

    is_told = pytest.raises(RefusedError, match=r"ended \(signal 9\)")
    with killed_when_asked(pid, monkeypatch), is_told as why:
        worker.ask("open", {"path": "job"})

    assert "\n" not in str(why.value)
    assert worker.ask("open", {"path": "job"}) == first
    assert worker._process.pid != pid


def test_a_process_whose_pipe_others_hold_open_costs_one_answer(
    worker: AnswerWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = multiprocessing.get_context("spawn")
    make_pipe, held = context.Pipe, []

    def pipe() -> tuple[Any, Any]:
        ours, theirs = make_pipe()
        held.append(os.dup(theirs.fileno()))
        return ours, theirs

    monkeypatch.setattr(context, "Pipe", pipe)
    try:
        worker.ask("open", {"path": "job"})
        is_told = pytest.raises(RefusedError, match=r"ended \(signal 9\)")
        with killed_when_asked(worker._process.pid, monkeypatch), is_told:
            worker.ask("open", {"path": "job"})
    finally:
        for descriptor in held:
            os.close(descriptor)
    assert len(held) == 1


def test_one_bad_file_and_wrong_questions_leave_the_process_as_it_is(
    worker: AnswerWorker, tmp_path: Path
) -> None:
    (tmp_path / "job" / "kineto_trace_9.json.gz").write_bytes(b"\x1f\x8b\x08 not gzip")
    opened = json.loads(worker.ask("open", {"path": "job"}))
    assert opened["num_failures"] == 1
    assert opened["failures"][0].startswith("kineto_trace_9.json.gz")
    pid = worker._process.pid
    for tool, arguments, why in (
        ("open", {"path": "absent"}, "no such file"),
        ("metric", {"path": "job", "name": "straggler"}, "unknown metric"),
        ("metric", {"path": "job", "name": "straggler_lag", "key": "no"}, "has no key"),
        ("metric", {"path": "job", "name": "straggler_lag", "cursor": 10**6}, "there are"),
        ("table", {"path": "job", "table": "no"}, "Invalid enum value"),
        ("table", {"path": "job", "table": "steps", "columns": ["no"]}, "no column"),
        ("table", {"path": "job", "table": "steps", "where": {"step": "x"}}, "is not N"),
        ("table", {"path": "job", "table": "events", "sort": "name"}, "column of numbers"),
        ("collective", {"path": "job", "communicator": "no", "instance": 1}, "communicator"),
        ("kernel", {"path": "job", "name": "["}, "regular expression"),
        ("kernel", {"path": "job", "row": 10**9}, "1000000000"),
        ("kernel", {"path": "job", "rank": "77"}, "no rank"),
        ("compare", {"a": "job"}, "state b"),
        ("window", {"path": "job"}, "state the window"),
        ("window", {"path": "job", "window": "x"}, "Illegal window"),
        ("explain", {"path": "job", "budget": 1}, "budget"),
        ("explain", {"path": "job", "bugdet": 4096}, "unknown field `bugdet`"),
        ("explain", {}, "missing required field `path`"),
        ("compare", {"a": "job", "a_steps": "1", "runs_vary_pct": float("inf")}, "runs_vary_pct"),
        ("open", {"path": ["job"]}, "Expected `str`"),
    ):
        with pytest.raises(RefusedError, match=why) as error:
            worker.ask(tool, arguments)
        assert "\n" not in str(error.value)
        assert "internal error" not in str(error.value), (tool, arguments)
    assert worker._process.pid == pid


def test_numbers_and_lists_may_be_written_as_texts(worker: AnswerWorker) -> None:
    asked = {"path": "job", "table": "steps"}
    plain = worker.ask("table", {**asked, "columns": ["step", "rank"], "limit": 2})
    assert plain == worker.ask("table", {**asked, "columns": '["step", "rank"]', "limit": "2"})


def test_a_regular_expression_that_is_also_json_of_a_list_stays_a_text(
    worker: AnswerWorker,
) -> None:
    found = json.loads(worker.ask("kernel", {"path": "job", "name": "[0]"}))
    assert "0" in found["name"]


def test_the_help_names_each_tool_and_the_schema_describes_each_argument() -> None:
    listed = _DESCRIPTION[_DESCRIPTION.index("Tools: ") :].partition(".")[0]
    assert re.findall(r"\w+", listed.replace(" and ", ", "))[1:] == list(QUESTIONS)
    _, schemas = msgspec.json.schema_components(QUESTIONS.values())
    for name, question in QUESTIONS.items():
        schema = schemas[question.__name__]
        assert schema["description"], name
        undescribed = [key for key, of in schema["properties"].items() if "description" not in of]
        assert undescribed == [], name
