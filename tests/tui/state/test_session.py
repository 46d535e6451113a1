"""The session: a snapshot that grows as ranks arrive."""

from __future__ import annotations

import msgspec
from fakes import Plan, empty_job, full_job
from msgspec.structs import replace

from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.ingest.load import Failed
from ccltui.parsers.window import Window
from ccltui.tui.state.session import Session

PLAN = Plan(ranks=2)


def test_a_session_counts_ranks_and_bytes() -> None:
    opened = Session("run").opened(empty_job(PLAN))

    assert (opened.phase, opened.ranks_loaded, opened.ranks_expected) == ("loading", 0, 2)
    assert (opened.done_bytes, opened.total_bytes) == (0, 8_000_000)
    reading = opened.progressed({"rank1.json": 1_000_000, "nowhere": 5})
    assert reading.done_bytes == 1_000_000
    assert reading.files["rank1.json"].status == "reading"
    assert reading.files["rank0.json"].status == "queued"


def test_a_file_may_hold_several_ranks() -> None:
    job = full_job(PLAN)
    both = [
        msgspec.structs.replace(one.source, path="both.sqlite", part=part, parts=2)
        for part, one in enumerate(job.ranks)
    ]
    ranks = [replace(one, source=source) for one, source in zip(job.ranks, both, strict=True)]
    opened = Session("run").opened(empty_job(PLAN))
    files = {"both.sqlite": opened.files["rank0.json"]}
    session = replace(opened, files=files, job=replace(job, ranks=tuple(ranks)))

    assert (session.ranks_loaded, session.ranks_expected) == (2, 2)


def test_only_what_changes_results_makes_a_new_generation() -> None:
    opened = Session("run").opened(empty_job(PLAN))
    job = full_job(PLAN)

    loaded = opened.with_job(job, {"rank0.json": ""})
    failed = loaded.with_job(job, {"rank1.json": "truncated"})

    assert (opened.generation, loaded.generation, failed.generation) == (0, 1, 1)
    assert failed.progressed({"rank0.json": 1}).generation == 1
    assert failed.files["rank1.json"].problem == "truncated"
    assert failed.done_bytes == 8_000_000
    assert failed.filtered(ViewOptions(steps=(1, 2))).generation == 2


def test_results_of_fewer_ranks_may_be_shown_until_something_else_is_asked() -> None:
    opened = Session("run").opened(empty_job(PLAN))
    loaded = opened.with_job(full_job(PLAN), {"rank0.json": ""}).with_job(
        full_job(PLAN), {"rank1.json": ""}
    )

    assert [loaded.accepts(generation) for generation in (0, 1, 2, 3)] == [True, True, True, False]
    filtered = loaded.filtered(ViewOptions(steps=(1, 2)))
    assert [filtered.accepts(generation) for generation in (2, 3)] == [False, True]
    assert [filtered.anew().accepts(generation) for generation in (3, 4)] == [False, True]
    assert filtered.anew().filter == ViewOptions()


def test_a_beginning_is_seen_and_counts_as_no_rank() -> None:
    opened = Session("run").opened(empty_job(PLAN))
    first, second = full_job(PLAN).ranks
    part = empty_job(PLAN).with_rank(replace(first, read_share=0.02))

    begun = opened.with_job(part, {"rank0.json": ""})

    assert (begun.ranks_loaded, begun.ranks_partly, begun.generation) == (0, 1, 1)
    assert begun.files["rank0.json"].status == "queued"
    assert begun.files["rank0.json"].done_bytes == 0
    reading = begun.progressed({"rank0.json": 1_000_000})
    assert reading.files["rank0.json"].status == "reading"
    whole = reading.with_job(part.with_rank(second).with_rank(first), {"rank0.json": ""})
    assert (whole.ranks_loaded, whole.ranks_partly, whole.generation) == (2, 0, 2)
    assert whole.files["rank0.json"].status == "done"


def test_numbers_of_a_beginning_whose_file_fails_are_stale() -> None:
    first, _ = full_job(PLAN).ranks
    part = empty_job(PLAN).with_rank(replace(first, read_share=0.02))
    begun = Session("run").opened(empty_job(PLAN)).with_job(part, {"rank0.json": ""})

    failed = begun.with_job(part.with_failure(Failed("rank0.json", "gone")), {"rank0.json": "gone"})

    assert (failed.ranks_partly, failed.generation) == (0, 2)
    assert failed.files["rank0.json"].problem == "gone"


def test_a_late_progress_does_not_reopen_a_file() -> None:
    done = Session("run").opened(empty_job(PLAN)).with_job(full_job(PLAN), {"rank0.json": ""})

    assert done.progressed({"rank0.json": 17}).files["rank0.json"].done_bytes == 4_000_000


def test_phases() -> None:
    assert Session("run").busy
    assert Session("run").finished(stopped=True).phase == "stopped"
    assert not Session("run").finished(stopped=False).busy
    assert Session("run").failed("nothing here").problem == "nothing here"
    assert ViewOptions(window=Window(0, None)).limits_time
    assert not ViewOptions(ranks=frozenset({1})).limits_time
