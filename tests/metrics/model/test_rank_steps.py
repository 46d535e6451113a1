"""Steps of a rank, and the device work assigned to them."""

from __future__ import annotations

import numpy as np
import pytest
from factories import Event, copy, kernel, launch, rank_trace, step
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.model import rank_steps
from ccltui.metrics.model.rank_facts import RankFacts, SharedResults
from ccltui.metrics.model.rank_steps import (
    OUTSIDE,
    Step,
    _step_of_launched,
    covering,
    launch_rows,
    launched_before_recording,
    step_of_work,
    steps_of,
)
from ccltui.parsers.columns import MISSING, RankTrace


def work_of(trace: RankTrace) -> list[int]:
    return [int(i) for i in step_of_work(trace, steps_of(trace)[0]).ids]


def num_guessed(trace: RankTrace) -> int:
    return step_of_work(trace, steps_of(trace)[0]).num_guessed


def test_markers_become_steps_in_order_of_start() -> None:
    trace = rank_trace(annotations=[step(8, 100, 50), step(7, 0, 90)])

    assert steps_of(trace) == ((Step(7, 0, 90_000), Step(8, 100_000, 150_000)), "ProfilerStep")


def test_the_copy_of_a_marker_on_the_device_is_no_step() -> None:
    trace = rank_trace(
        annotations=[step(5, 0, 1000)],
        gpu_annotations=[step(5, 50, 980)],
    )

    assert steps_of(trace)[0] == (Step(5, 0, 1_000_000),)


def test_old_spellings_are_markers_and_similar_names_are_not() -> None:
    trace = rank_trace(
        annotations=[
            Event("ProfilerStep #7", 0, 10, 1),
            Event("MyProfilerStep#9", 20, 10, 1),
            Event("ProfilerStep#x", 40, 10, 1),
            Event(f"ProfilerStep#{2**70}", 60, 10, 1),  # no number that a column could hold
        ]
    )

    assert steps_of(trace)[0] == (Step(7, 0, 10_000),)


def test_markers_without_a_number_are_counted() -> None:
    trace = rank_trace(
        annotations=[Event("ProfilerStep*", 10, 5, 1), Event("ProfilerStep*", 20, 5, 1)]
    )

    assert [s.id for s in steps_of(trace)[0]] == [0, 1]


def test_old_files_mark_steps_among_the_operators() -> None:
    operators = [Event("ProfilerStep#3", 0, 10, 1, category="Operator"), Event("aten::mm", 1, 2, 1)]

    assert steps_of(rank_trace(cpu_ops=operators)) == ((Step(3, 0, 10_000),), "ProfilerStep")
    # Never mixed: where annotations mark steps, operators do not.
    both = rank_trace(cpu_ops=operators, annotations=[step(4, 20, 10)])
    assert [s.id for s in steps_of(both)[0]] == [4]


def test_inference_loops_mark_steps_where_the_profiler_does_not() -> None:
    name = "execute_context_16(16)_generation_0(0)"
    trace = rank_trace(annotations=[Event(name, 0, 5, 1), Event(name, 10, 5, 1)])

    assert steps_of(trace) == ((Step(0, 0, 5000), Step(1, 10_000, 15_000)), "execute_context")


def test_one_range_of_an_inference_server_is_no_loop() -> None:
    trace = rank_trace(annotations=[Event("execute_context_1(8)_generation_0(0)", 0, 5, 1)])

    assert steps_of(trace) == ((), None)


def test_the_marker_of_the_profiler_has_precedence() -> None:
    trace = rank_trace(
        annotations=[Event("run_batch", 0, 5, 1), Event("run_batch", 5, 5, 1), step(3, 10, 5)]
    )

    assert steps_of(trace)[1] == "ProfilerStep"


def test_markers_of_no_length_and_second_markers_of_one_step_do_not_count() -> None:
    trace = rank_trace(annotations=[step(1, 0, 0), step(2, 10, 5), step(2, 11, 90)])

    assert steps_of(trace)[0] == (Step(2, 11_000, 101_000),)


def test_no_marker() -> None:
    assert steps_of(rank_trace(gpu=[kernel("gemm", 0, 1)])) == ((), None)


def test_work_belongs_to_the_step_that_launched_it() -> None:
    trace = rank_trace(
        annotations=[step(1, 0, 100), step(2, 100, 100)],
        runtime=[launch(11, 95), launch(12, 105), launch(13, 250)],
        gpu=[
            kernel("late work of step 1", 130, 20, correlation=11),
            kernel("work of step 2", 160, 80, correlation=12),
            kernel("launched after the last step", 260, 5, correlation=13),
        ],
    )

    assert work_of(trace) == [1, 2, OUTSIDE]


def test_windows_reach_from_first_start_to_last_end_of_a_steps_work() -> None:
    trace = rank_trace(
        annotations=[step(1, 0, 100), step(2, 100, 100), step(3, 200, 100)],
        runtime=[launch(11, 10), launch(12, 95), launch(13, 105)],
        gpu=[
            kernel("a", 20, 10, correlation=11),
            kernel("b", 130, 20, correlation=12),
            copy(160, 80),
            kernel("c", 155, 5, correlation=13),
        ],
    )

    work = step_of_work(trace, steps_of(trace)[0])

    assert work.start_ns.tolist() == [20_000, 155_000, 0]
    assert work.end_ns.tolist() == [150_000, 240_000, 0]  # step 3 has no work: empty
    assert work.uncorrelated.tolist() == [False, False, False, True]


_LAUNCHES = st.lists(st.tuples(st.integers(-1, 12), st.integers(0, 400)), min_size=1, max_size=12)
_WORK = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 400), st.integers(0, 90)), max_size=12
)


@pytest.mark.skipif(not available(), reason="the loop was not compiled")
@given(_LAUNCHES, _WORK, st.lists(st.tuples(st.integers(0, 300), st.integers(1, 90)), min_size=1))
def test_the_compiled_pass_assigns_launched_work_to_the_same_steps(
    launches: list[tuple[int, int]],
    work: list[tuple[int, int, int]],
    markers: list[tuple[int, int]],
) -> None:
    trace = rank_trace(
        annotations=[step(number, *marker) for number, marker in enumerate(markers)],
        runtime=[launch(number, start) for number, start in launches],
        gpu=[kernel("a", start, length, correlation=number) for number, start, length in work],
    )
    steps = steps_of(trace)[0]

    quick = _step_of_launched(trace, steps)

    launched = {number for number, _ in launches if number >= 0}
    assert (quick is not None) == all(number in launched for number, _, _ in work) or not launched
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_steps, "_step_of_launched", lambda *_: None)
        slow = step_of_work(trace, steps)
    if quick is not None:
        for name in ("index", "uncorrelated", "start_ns", "end_ns"):
            found, expected = getattr(quick, name), getattr(slow, name)
            assert found.dtype == expected.dtype
            assert found.tolist() == expected.tolist()
        assert quick.num_guessed == slow.num_guessed == 0


def test_ranks_that_share_columns_have_one_result_which_is_that_of_each() -> None:
    trace = rank_trace(
        annotations=[step(number, 10 * number, 10) for number in range(20)],
        runtime=[launch(number, number) for number in range(200)],
        gpu=[kernel("a", at + 3, 1 + at % 2, correlation=at) for at in range(200)],
    )
    later = trace.group("gpu").with_columns(start_ns=trace.group("gpu").start_ns + 7_000)
    moved = trace.group("runtime").with_columns(start_ns=trace.group("runtime").start_ns + 5_000)
    traces = (
        trace,
        replace(trace, events={**trace.events, "gpu": later}),
        replace(trace, events={**trace.events, "runtime": moved}),
    )
    shared = SharedResults()

    one, other, launched = (RankFacts(each, shared) for each in traces)

    assert one.classes is other.classes
    assert one.marked_steps is other.marked_steps
    assert one.work.index is other.work.index
    for facts, each in zip((one, other, launched), traces, strict=True):
        alone = RankFacts(each)
        assert facts.classes.tolist() == alone.classes.tolist()
        assert facts.marked_steps == alone.marked_steps
        for name in ("index", "start_ns", "end_ns"):
            assert getattr(facts.work, name).tolist() == getattr(alone.work, name).tolist()
    assert launched.work.index.tolist() != one.work.index.tolist()


def test_launches_from_step_to_step_and_back_are_searched() -> None:
    """Each would otherwise pass all steps: hours for a million kernels of 100,000 steps."""
    trace = rank_trace(
        annotations=[step(number, 10 * number, 10) for number in range(200)],
        runtime=[launch(11, 5), launch(12, 1_995)],
        gpu=[kernel("a", at, 1, correlation=11 + at % 2) for at in range(2_000)],
    )

    assert _step_of_launched(trace, steps_of(trace)[0]) is None
    assert work_of(trace) == [0, 199] * 1_000


def test_work_without_a_launch_record_is_assigned_by_its_start() -> None:
    # The device runs behind: step 1's work begins at 150, and what the stream runs before that is
    # of step 1, as launches of the recording begin with it.
    trace = rank_trace(
        annotations=[step(1, 0, 100), step(2, 100, 100)],
        runtime=[launch(11, 10), launch(12, 110)],
        gpu=[
            kernel("before the first marker", -5, 3),
            kernel("in the first marker", 20, 10),
            kernel("known of step 1", 150, 50, correlation=11),
            kernel("between them", 180, 5),
            kernel("known of step 2", 210, 50, correlation=12),
            kernel("after it, in its extent", 220, 10),
            kernel("after everything", 900, 1),
        ],
    )

    assert work_of(trace) == [OUTSIDE, 1, 1, 1, 2, 2, OUTSIDE]


def test_work_launched_before_the_recording_is_what_each_stream_ran_first() -> None:
    # The recording began after the first two were launched; the device is still behind.
    gpu = [
        kernel("of an earlier step", 20, 50),
        kernel("too", 80, 60),
        kernel("known of step 1", 150, 50, correlation=11),
        kernel("known of step 2", 210, 50, correlation=12),
    ]

    def earlier(gpu: list[Event]) -> list[bool]:
        trace = rank_trace(
            annotations=[step(1, 0, 100), step(2, 100, 100)],
            runtime=[launch(11, 10), launch(12, 110)],
            gpu=gpu,
        )
        work = step_of_work(trace, steps_of(trace)[0])
        return [
            bool(one) for one in launched_before_recording(trace.group("gpu"), work.uncorrelated)
        ]

    assert earlier(gpu) == [True, True, False, False]
    # Records are missing for another reason.
    assert not any(earlier([*gpu, kernel("without a record", 300, 10)]))


def test_without_any_launch_record_the_markers_decide() -> None:
    trace = rank_trace(
        annotations=[step(1, 0, 100), step(2, 100, 100)],
        gpu=[kernel("a", 50, 100), kernel("b", 120, 10), kernel("c", 900, 10)],
    )

    assert work_of(trace) == [1, 2, OUTSIDE]
    assert num_guessed(trace) == 1


def test_work_at_the_head_of_a_step_is_of_the_marker_that_holds_it() -> None:
    # Matrix products lack launch records, all-reduces on another stream have them.
    trace = rank_trace(
        annotations=[step(n, 100 * n, 99) for n in (1, 2, 3)],
        runtime=[launch(n, 100 * n + 1) for n in (1, 2, 3)],
        gpu=[
            event
            for n in (1, 2, 3)
            for event in (
                kernel("gemm", 100 * n + 2, 30),
                kernel("ncclDevKernel_AllReduce", 100 * n + 31, 20, stream=20, correlation=n),
                kernel("gemm", 100 * n + 44, 20),
            )
        ],
    )

    assert work_of(trace) == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert num_guessed(trace) == 0


def test_work_between_launched_work_of_one_step_is_of_this_step() -> None:
    # A kernel of Triton has no record, and the device is a step behind.
    trace = rank_trace(
        annotations=[step(1, 0, 100), step(2, 100, 100)],
        runtime=[launch(11, 10), launch(12, 20), launch(13, 110)],
        gpu=[
            kernel("a", 120, 10, correlation=11),
            kernel("triton", 140, 10),
            kernel("b", 160, 10, correlation=12),
            kernel("c", 230, 10, correlation=13),
        ],
    )

    assert work_of(trace) == [1, 1, 1, 2]
    assert num_guessed(trace) == 0


def test_a_late_device_moves_work_back_by_as_many_steps() -> None:
    # All-reduces begin one marker after their launch, so do the products around them.
    trace = rank_trace(
        annotations=[step(n, 100 * n, 100) for n in (1, 2, 3)],
        runtime=[launch(n, 100 * n + 1) for n in (1, 2, 3)],
        gpu=[
            event
            for n in (1, 2, 3)
            for event in (
                kernel("gemm", 100 * n + 102, 30),
                kernel("ncclDevKernel_AllReduce", 100 * n + 131, 20, stream=20, correlation=n),
                kernel("gemm", 100 * n + 144, 20),
            )
        ],
    )

    assert work_of(trace) == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert num_guessed(trace) > 0  # nothing but the delay of the all-reduces tells it


def test_work_after_a_short_marker_is_a_guess() -> None:
    # The host needs 20 us for a step, the device 60.
    trace = rank_trace(
        annotations=[step(n, 100 * n, 20) for n in (1, 2)],
        gpu=[kernel("gemm", 100 * n + after, 25) for n in (1, 2) for after in (5, 35)],
    )

    assert work_of(trace) == [1, 1, 2, 2]
    assert num_guessed(trace) == 2


def test_work_launched_outside_of_steps_keeps_what_is_between_it_outside() -> None:
    trace = rank_trace(
        annotations=[step(1, 0, 100), step(2, 300, 100)],
        runtime=[launch(11, 10), launch(12, 210), launch(13, 230), launch(14, 310)],
        gpu=[
            kernel("a", 20, 10, correlation=11),
            kernel("evaluation", 215, 10, correlation=12),
            kernel("triton", 226, 10),
            kernel("evaluation", 240, 10, correlation=13),
            kernel("b", 320, 10, correlation=14),
        ],
    )

    assert work_of(trace) == [1, OUTSIDE, OUTSIDE, OUTSIDE, 2]
    assert num_guessed(trace) == 0


def test_an_absent_correlation_is_no_launch() -> None:
    trace = rank_trace(
        annotations=[step(1, 0, 10)],
        runtime=[launch(-1, 500)],
        gpu=[kernel("a", 5, 1)],
    )

    assert work_of(trace) == [1]


@pytest.mark.parametrize("scale", [1, 1 << 40])  # few numbers in a large range are sorted
def test_launches_are_found_by_number_and_the_first_of_one_counts(scale: int) -> None:
    numbers = [3, MISSING, 1, 3, 7]
    calls = [n * scale if n > 0 else n for n in numbers]
    trace = rank_trace(
        runtime=[launch(number, place) for place, number in enumerate(calls)],
        gpu=[
            kernel("a", 10.0 + place, 1, correlation=number * scale if number > 0 else number)
            for place, number in enumerate([7, 3, 2, MISSING, 1, 9])
        ],
    )

    assert launch_rows(trace).tolist() == [4, 0, MISSING, MISSING, 2, MISSING]


def test_without_calls_nothing_was_launched() -> None:
    trace = rank_trace(runtime=[launch(MISSING, 0)], gpu=[kernel("a", 1, 1, correlation=4)])

    assert launch_rows(trace).tolist() == [MISSING]


def test_covering_is_half_open() -> None:
    steps = (Step(1, 0, 10), Step(2, 20, 30))

    times = np.array([-1, 0, 9, 10, 20, 29, 30])

    assert covering(steps, times).tolist() == [-1, 0, 0, -1, 1, 1, -1]


@pytest.mark.parametrize(
    "steps",
    [
        (Step(1, 10, 20), Step(2, 20, 30), Step(3, 40, 41)),
        (Step(1, 10, 50), Step(2, 20, 30), Step(3, 45, 60)),  # one inside another
        (Step(1, 10, 30), Step(2, 10, 20), Step(3, 15, 15)),  # of one start; an empty one
    ],
)
def test_ascending_times_are_in_the_steps_that_they_are_in_in_any_order(
    steps: tuple[Step, ...],
) -> None:
    times = np.repeat(np.arange(5, 65), 2)
    order = np.random.default_rng(0).permutation(len(times))

    found = covering(steps, times)

    assert covering(steps, times[order]).tolist() == found[order].tolist()
    assert set(found.tolist()) > {OUTSIDE}
