"""Inputs, reasons and warnings of every result, and refusals of every metric."""

from __future__ import annotations

import json
from typing import NoReturn

import pytest
from factories import Event, FakeJob, allreduce, job, kernel, rank_trace, step
from msgspec import structs

from ccltui.metrics.metric import Metric
from ccltui.metrics.registry import metrics
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.metrics.view.provenance import inputs_of
from ccltui.parsers.columns import Note
from ccltui.parsers.ingest.load import Failed
from ccltui.parsers.window import Window

COUNT = metrics()["coll_call_num"]


@pytest.mark.parametrize("metric", metrics().values(), ids=lambda metric: metric.name)
def test_an_empty_directory_is_unavailable_and_never_zero(metric: Metric) -> None:
    result = metric.run(View(job(kinds=())))

    assert (result.status, result.reason, result.value) == ("unavailable", "no_trace", None)
    assert set(result.details) == set(metric.keys)
    assert set(result.details.values()) == {None}


@pytest.mark.parametrize("metric", metrics().values(), ids=lambda metric: metric.name)
def test_every_document_is_json_without_nan(metric: Metric) -> None:
    view = View(
        job(
            rank_trace(0, gpu=[kernel("gemm", 0, 5), allreduce(2, 5)], annotations=[step(1, 0, 9)]),
            rank_trace(1, gpu=[kernel("gemm", 0, 5), allreduce(2, 5)], annotations=[step(1, 0, 9)]),
        )
    )

    document = metric.run(view).to_document()

    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["metric"] == metric.name
    for key in ("schema", "status", "reason", "reasons", "source", "basis", "inputs", "warnings"):
        assert key in document


@pytest.mark.parametrize("metric", metrics().values(), ids=lambda metric: metric.name)
def test_missing_data_is_a_reason_not_an_exception(metric: Metric) -> None:
    view = View(job(rank_trace(0, cpu_ops=[Event("aten::mm", 0, 1, 1)])))

    result = metric.run(view)

    if metric.name == "findings":  # it also describes a recording without work
        assert (result.status, result.value) == ("partial", None)
        assert [one["class"] for one in result.details["findings"]] == ["nothing"]
    else:
        assert result.status == "unavailable"
    assert result.reason not in (None, "internal_error")


def test_files_of_the_other_kind_only() -> None:
    result = COUNT.run(View(job(kinds=("nsys_sqlite", "log"))))

    assert result.reason == "mode_mismatch"
    assert "file.nsys_sqlite" in result.reasons[0].message


def test_profiles_of_tpus_are_recognised_and_refused() -> None:
    result = COUNT.run(View(job(kinds=("xla_trace", "log"))))

    assert result.reason == "mode_mismatch"
    assert "file.xla_trace" in result.reasons[0].message


def test_the_selected_profile_mode_must_fit() -> None:
    trace = rank_trace(0, gpu=[allreduce(0, 1)])

    for mode, expected in (("auto", None), ("torch", None), ("nsys", "mode_mismatch")):
        view = View(job(trace), ViewOptions(profile_mode=mode))  # type: ignore[arg-type]
        assert COUNT.run(view).reason == expected


def test_files_that_could_not_be_read_are_the_reason() -> None:
    failed = (Failed("bad.json", "bad.json at byte 12: not JSON"),)

    nothing = COUNT.run(View(job(failures=failed)))
    assert (nothing.status, nothing.reasons[0].file) == ("unavailable", "bad.json")

    some = COUNT.run(View(job(rank_trace(0, gpu=[allreduce(0, 1)]), failures=failed)))
    assert (some.status, some.value, some.reasons[0].file) == ("partial", 1, "bad.json")


def test_absent_ranks_of_the_world_make_it_partial() -> None:
    result = COUNT.run(View(job(rank_trace(3, gpu=[allreduce(0, 1)], world_size=8))))

    assert (result.status, result.value, result.reason) == ("partial", 1, "missing_ranks")
    assert result.reasons[0].message == "1 of 8 ranks found; missing 0-2, 4-7"
    assert result.inputs["missing_ranks"] == [0, 1, 2, 4, 5, 6, 7]


def test_many_absent_ranks_are_named_in_short() -> None:
    result = COUNT.run(View(job(rank_trace(517, gpu=[allreduce(0, 1)], world_size=1024))))

    assert result.reasons[0].message == "1 of 1024 ranks found; missing 0-516, 518-1023"


def test_a_truncated_file_makes_it_partial() -> None:
    result = COUNT.run(View(job(rank_trace(0, gpu=[allreduce(0, 1)], truncated=True))))

    assert (result.status, result.reason) == ("partial", "truncated_trace")
    assert result.reasons[0].file == "rank0_trace.json"


def test_the_reason_of_a_truncated_file_contains_where_and_why_it_ends() -> None:
    note = Note("truncated_trace", "the file ends in the middle; 1 events kept", offset=1234)
    trace = rank_trace(0, gpu=[allreduce(0, 1)], truncated=True, notes=[note])

    result = COUNT.run(View(job(trace)))

    assert result.reasons[0].message == (
        "rank0_trace.json ends early; the file ends in the middle; 1 events kept (byte 1,234)"
    )


def test_partly_read_files_make_it_partial_with_the_share_read() -> None:
    traces = [
        structs.replace(rank_trace(rank, gpu=[allreduce(0, 1)]), read_share=share)
        for rank, share in enumerate((0.01, 0.03, 1.0))
    ]

    result = COUNT.run(View(job(*traces)))

    assert (result.status, result.reason) == ("partial", "partly_read")
    assert result.reasons[0].message == (
        "only a part of ranks 0-1 is read: 2.0 % of the files of 2 of 3 ranks"
    )


def test_missing_data_may_be_in_the_unread_part_of_a_file() -> None:
    trace = rank_trace(0, cpu_ops=[Event("aten::mm", 0, 1, 1)])

    result = COUNT.run(View(job(structs.replace(trace, read_share=0.5))))

    assert [reason.code for reason in result.reasons] == ["no_gpu_events", "partly_read"]


def test_missing_data_may_be_in_the_lost_part_of_a_file() -> None:
    trace = rank_trace(0, cpu_ops=[Event("aten::mm", 0, 1, 1)], truncated=True)

    result = COUNT.run(View(job(trace)))

    assert [reason.code for reason in result.reasons] == ["no_gpu_events", "truncated_trace"]


def test_dropped_events_have_one_reason_per_kind() -> None:
    lost = Note("bad_time", "events without a readable ts are dropped", offset=4321, count=2)
    mended = Note("repaired_event", "an event is not strict JSON and was read leniently")
    one = [rank_trace(rank, gpu=[allreduce(0, 1)], notes=[lost, mended][rank:]) for rank in (0, 1)]
    both = [rank_trace(rank, gpu=[allreduce(0, 1)], notes=[lost]) for rank in (0, 1)]

    first, all_of = COUNT.run(View(job(*one))), COUNT.run(View(job(*both)))

    assert [reason.message for reason in first.reasons] == [
        "rank0_trace.json: events without a readable ts are dropped (2×, first at byte 4,321)"
    ]
    assert [reason.message for reason in all_of.reasons] == [
        "rank0_trace.json, rank1_trace.json: events without a readable ts are dropped (4×)"
    ]
    assert (first.status, first.reason, first.warnings) == ("partial", "device_times", ())


def test_notes_that_differ_in_numbers_alone_have_one_warning() -> None:
    """Each rank names its own file, as execution traces do."""
    traces = [
        rank_trace(
            rank,
            gpu=[allreduce(0, 1)],
            notes=[Note("execution_trace", f"described by torch_et_{rank}.json", count=rank + 1)],
        )
        for rank in (0, 1, 2)
    ]

    assert COUNT.run(View(job(*traces))).warnings == (
        "rank0_trace.json, rank1_trace.json, rank2_trace.json: described by torch_et_0.json "
        "(the first of several; their numbers differ) (6×)",
    )


def test_a_trace_without_any_event_is_not_outside_of_a_window() -> None:
    result = COUNT.run(View(job(rank_trace(0), rank_trace(1))))

    assert (result.status, result.reason) == ("unavailable", "no_trace")
    assert result.reasons[0].message == (
        "no event with a time in rank0_trace.json, rank1_trace.json"
    )


def test_a_directory_of_other_files_names_them() -> None:
    one = COUNT.run(View(job(kinds=("log",))))
    several = COUNT.run(View(job(kinds=("log", "log", "execution_trace"))))

    assert one.reasons[0].message == "no Kineto trace in /data; found file.log: log"
    assert several.reasons[0].message == (
        "no Kineto trace in /data; found 1 execution trace file and 2 log files"
    )


def test_two_files_of_one_rank_are_both_counted_and_named() -> None:
    traces = [rank_trace(0, gpu=[allreduce(0, 1)], label=f"0 ({name})") for name in ("a", "b")]

    result = COUNT.run(View(job(*traces)))

    assert (result.status, result.reason) == ("partial", "rank_conflict")
    assert result.details["calls_per_rank"] == {"0 (a)": 1, "0 (b)": 1}


def test_files_with_different_world_sizes_make_every_number_partial() -> None:
    traces = [rank_trace(rank, gpu=[allreduce(0, 1)], world_size=rank + 2) for rank in (0, 1)]

    result = COUNT.run(View(job(*traces)))
    one = COUNT.run(View(job(*traces), ViewOptions(ranks=frozenset({0}))))

    assert result.status == "partial"
    assert result.reasons[0].code == "world_size_conflict"
    assert result.reasons[0].message == (
        "the world size is 2 in rank0_trace.json, but 3 in rank1_trace.json"
    )
    assert "world_size_conflict" not in {reason.code for reason in one.reasons}


def test_an_unreadable_card_is_a_warning_where_it_is_not_needed() -> None:
    result = COUNT.run(View(job(rank_trace(0, gpu=[allreduce(0, 1)]), card_problem="card.yaml:2")))

    assert result.status == "ok"
    assert any("card.yaml:2" in warning for warning in result.warnings)


def test_the_basis_names_window_and_marker() -> None:
    marked = rank_trace(0, gpu=[allreduce(0, 9)], annotations=[step(4, 0, 9)])
    bare = rank_trace(1, gpu=[allreduce(0, 9)])

    assert COUNT.run(View(job(marked))).basis["step_marker"] == "ProfilerStep"
    assert COUNT.run(View(job(marked))).inputs["steps"] == [4]
    assert COUNT.run(View(job(bare))).basis["window"] == "trace"
    assert COUNT.run(View(job(marked, bare))).basis["window"] == "mixed"
    windowed = COUNT.run(View(job(marked), ViewOptions(window=Window(0, 5000))))
    assert "its own" in windowed.basis["clipped"]


def test_an_override_that_is_no_number_is_refused() -> None:
    view = View(job(rank_trace(0, gpu=[allreduce(0, 1)])), ViewOptions(overrides={"tp": "two"}))

    result = COUNT.run(view)

    assert (result.reason, result.inputs["overrides"]) == ("card_invalid", {"tp": "two"})
    assert "tp = 'two' is not a whole number" in result.reasons[0].message


def test_an_error_in_the_inputs_too_is_a_result() -> None:
    class Broken(View):
        @property
        def ranks(self) -> NoReturn:
            raise OverflowError("too large")

    def broken(view: View) -> Result:
        raise OverflowError(str(inputs_of(view)))

    metric = Metric("x", "", "", (), ("x",), "x", broken)

    result = metric.run(Broken(job(rank_trace(0, gpu=[allreduce(0, 1)]))))

    assert (result.status, result.reason, result.inputs) == ("unavailable", "internal_error", {})


def test_an_unexpected_error_is_a_result_with_its_reason() -> None:
    def broken(_: View) -> None:
        raise ZeroDivisionError("oops")

    metric = Metric("x", "", "", (), ("x",), "x", broken)  # type: ignore[arg-type]

    result = metric.run(View(job(rank_trace(0, gpu=[allreduce(0, 1)]))))

    assert (result.status, result.reason) == ("unavailable", "internal_error")
    assert "ZeroDivisionError: oops" in result.reasons[0].message


def test_a_refusal_carries_its_reasons() -> None:
    refusal = refuse("no_card", "there is none", file="x.yaml")

    assert refusal.reasons == (Reason("no_card", "there is none", file="x.yaml"),)
    assert str(Refusal(Reason("no_card", "a"), Reason("no_trace", "b"))) == "a; b"


def test_the_factory_returns_a_job() -> None:
    fake = FakeJob((rank_trace(2, gpu=[allreduce(7, 1)], world_size=3),))

    assert (fake.world_size, fake.missing_ranks, fake.origin_ns) == (3, (0, 1), 7000)
