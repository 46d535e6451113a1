"""Findings on small jobs whose losses are known by hand, and the words that state them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from factories import Coll, Event, allreduce, copy, job, kernel, launch, rank_trace, step, world
from full_jobs import view_of
from partition_checks import check

from ccltui.metrics.catalog.time.findings import answer_of
from ccltui.metrics.findings import sentences
from ccltui.metrics.findings.causes import cause_search
from ccltui.metrics.findings.culprits import Culprits, with_saving_text
from ccltui.metrics.findings.finding import Answer, Finding, Kind, Recording, choice_of
from ccltui.metrics.findings.rank_time import idle_causes
from ccltui.metrics.findings.recordings import device_findings
from ccltui.metrics.findings.sentences import named_text
from ccltui.metrics.registry import find
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.words import factor, ranks_text, sentence
from ccltui.parsers.columns import Note, ProcessGroup
from ccltui.parsers.job import open_job
from ccltui.parsers.numbers import percent, time_text

SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def answered(*ranks: Any, **options: Any) -> Answer:
    return answer_of(View(job(*ranks, **options)))


def late_job(excess_us: float) -> Answer:
    """Two ranks, four steps of 1 ms: a product of 300 us, rank 1's longer, then a reduction."""
    ranks = []
    for rank in range(2):
        gpu, marks, calls = [], [], []
        for number in range(4):
            at = 1000.0 * number
            length = 300 + excess_us * rank
            gpu.append(kernel("sgemm", at, length, correlation=2 * number + 1))
            end = at + 700 + excess_us
            gpu.append(allreduce(at + length, end - at - length))
            calls.append(launch(2 * number + 1, at - 5))
            marks.append(step(number, at - 10, 990))
        trace = rank_trace(
            rank, gpu=gpu, annotations=marks, runtime=calls, groups=[world(2)], world_size=2
        )
        ranks.append(trace)
    return answered(*ranks)


def test_the_rank_that_comes_last_is_the_one_waited_for() -> None:
    found = late_job(200)

    waits = [one for one in found.findings if one.where.ranks == ("1",)]
    # a step of (4 * 900 + 3 * 100) / 4 us: 200 of it rank 0 waits, and rank 1 computes longer
    assert waits
    assert waits[0].kind == "slow_worker"
    assert waits[0].share == pytest.approx(200 / 975)
    assert "rank 1" in waits[0].text.lower()
    assert waits[0].sure.who != "unknown"


def test_the_parts_of_rank_time_add_up() -> None:
    found = answer_of(view_of("training"))
    parts = [one for one in found.findings if one.kind != "slow_steps"]

    # parts below the material share are not listed
    assert 0.95 <= sum(one.share or 0.0 for one in parts) <= 1 + 1e-9
    losses = [one for one in parts if one.kind not in ("compute_bound", "waiting_for_rank")]
    shares = [one.share or 0.0 for one in losses]
    assert shares == sorted(shares, reverse=True)
    period = found.period_ms or 0.0
    for one in parts:
        assert one.cost_ms == pytest.approx((one.share or 0.0) * period)


def test_the_bubble_is_one_part_of_the_step_and_its_difference_to_the_metric_is_said() -> None:
    pipeline = ProcessGroup("1", "mesh_pp", (0, 1), 2)

    def transfer(op: str, start_us: float, dur_us: float, **peer: int) -> Event:
        return kernel(SENDRECV, start_us, dur_us, 20, Coll(op, 1000, 1000, **peer))  # type: ignore[arg-type]

    ranks = [
        rank_trace(
            0,
            gpu=[
                kernel("sgemm", 0, 860),
                transfer("send", 860, 40, dst=1),
                kernel("sgemm", 900, 100),
            ],
            groups=[pipeline],
            world_size=2,
        ),
        rank_trace(
            1,
            gpu=[
                kernel("sgemm", 0, 500),
                transfer("recv", 500, 400, src=0),
                kernel("sgemm", 950, 50),
            ],
            groups=[pipeline],
            world_size=2,
        ),
    ]
    view = View(job(*ranks))

    (bubble,) = [one for one in answer_of(view).findings if one.kind == "pipeline_bubble"]
    check(view)
    # of 2 * 1000 us transfers take 440; of the receive 40 move data, and 50 us are idle
    assert bubble.share == 440 / 2000
    parts = find("step_composition").run(view).details["parts"]
    assert [row["share"] for row in parts if row["kind"] == "bubble"] == [bubble.share]
    measured = find("pipeline_bubble").run(view).details["bubble_ratio"]
    assert measured == (400 - 40 + 50) / 2000
    assert bubble.more.startswith(f"The pipeline bubble is {percent(measured)}: idle time in steps")


@pytest.mark.parametrize(
    ("saves", "bounds", "text"),
    [
        (9.8, None, "Fixing it saves 9.8 ms a step."),
        (
            3.0,
            None,
            "Fixing it saves 3 ms a step (3.0 %): then another rank or the host limits the step.",
        ),
        (
            0.04,
            None,
            "Fixing it alone saves nothing: then another rank or the host limits the step.",
        ),
        (10.2, None, "Fixing it saves 10 ms a step."),
        (
            15.0,
            None,
            "Fixing it saves 10 ms a step, and up to 15 ms if the delay of the rank itself goes "
            "too.",
        ),
        (None, (2.0, 4.0), "Fixing it saves between 2 ms and 4 ms a step."),
        (None, (0.0, 4.0), "Fixing it saves at most 4 ms a step."),
    ],
)
def test_what_is_saved_is_said_beside_what_is_lost(
    saves: float | None, bounds: tuple[float, float] | None, text: str
) -> None:
    lost = Finding(
        "waiting_for_rank", "", "It is late.", cost_ms=10, saves_ms=saves, saves_bounds_ms=bounds
    )

    assert with_saving_text(lost, 100, by_steps=True).more == f"It is late. {text}"


def test_a_share_of_all_devices_has_all_devices_for_its_subject() -> None:
    assert sentences.idle_text("checkpoint", 0.23, 4, "rank 2") == (
        "the devices, mainly that of rank 2, are idle 23 % of the time while the host saves a "
        "checkpoint"
    )


def test_a_device_that_computes_all_the_time_is_bound_by_it() -> None:
    trace = rank_trace(0, gpu=[kernel("sgemm", 0, 900), kernel("gelu", 900, 100)])
    first = answered(trace).findings[0]

    assert (first.kind, first.share) == ("compute_bound", 1.0)
    assert first.text == "The device computes 100 % of the time; matrix products take 90 % of that."
    assert first.where.kernel == "sgemm"


def test_copies_while_nothing_computes() -> None:
    trace = rank_trace(0, gpu=[kernel("sgemm", 0, 200), copy(200, 800)])
    first = answered(trace).findings[0]

    assert (first.kind, first.share) == ("copies", 0.8)
    assert first.text == "Copies run while nothing computes: 80 % of the time, 800 us in all."


def test_idle_time_without_launches_has_no_cause() -> None:
    trace = rank_trace(0, gpu=[kernel("sgemm", 0, 100), kernel("sgemm", 900, 100)])
    first = answered(trace).findings[0]

    assert (first.kind, first.share, first.sure.what) == ("idle_unknown", 0.8, "low")
    assert first.do.startswith("Record host events too")


def test_one_rank_of_many_may_be_waiting() -> None:
    trace = rank_trace(3, gpu=[kernel("sgemm", 0, 100), allreduce(100, 900)], world_size=8)
    first = answered(trace).findings[0]

    assert (first.kind, first.share) == ("exposed_communication", 0.9)
    assert first.more == (
        "Only 1 of 8 ranks is recorded: part of this may be waiting for the others."
    )


def test_a_recording_of_operators_alone_tells_what_it_holds() -> None:
    found = answered(rank_trace(0, cpu_ops=[Event("aten::mm", 0, 5000, 1)]))

    assert found.recording == "no_work"
    assert found.findings[0].kind == "nothing"
    assert found.findings[0].text == (
        "No kernel ran in this recording of 1 rank: it holds 1 operator."
    )
    assert found.findings[0].more == "Largest operators on the host: aten::mm 5 ms."


def test_operators_count_by_their_own_time_and_waits_as_collectives() -> None:
    operators = [
        Event("aten::linear", 0, 600, 1),
        Event("aten::addmm", 100, 400, 1),
        Event("_c10d_functional::wait_tensor", 600, 300, 1),
    ]
    found = answered(rank_trace(0, cpu_ops=operators, annotations=[step(0, 0, 1000)]))

    first, second = found.findings
    assert (first.kind, first.share) == ("cpu_bound", 0.6)
    assert first.where.kernel == "aten::addmm"
    assert first.more.startswith("Largest operators, by their own time: aten::addmm 67 %")
    assert first.more.endswith("For 10 % no operator is recorded.")
    assert (second.kind, second.share) == ("collective_wait", 0.3)


def test_idle_time_is_said_also_where_collectives_ran_on_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The device computes 300 of 1,000 us; of the rest it is not known what waits for what."""

    def refused(_: object) -> None:
        raise refuse("no_collectives", "the collectives ran on the host")

    monkeypatch.setattr(device_findings, "require_communication_on_device", refused)
    gpu = [kernel("sgemm", 0, 100), kernel("sgemm", 800, 200)]

    (first,) = answered(rank_trace(0, gpu=gpu)).findings

    assert first.kind == "compute_bound"
    assert "70 % of the time nothing runs on the device" in first.more


def test_a_recording_is_named_by_what_tells_it_from_the_others() -> None:
    rows = [Recording(f"jobs/{one}/run.sqlite", 1, None, "Copies run.") for one in ("a", "b")]

    assert (
        "the one opened is b/run.sqlite: copies run." in choice_of(rows, "jobs/b/run.sqlite").text
    )


def test_a_host_that_waits_for_copies_is_not_said_to_be_idle() -> None:
    found = answered(
        rank_trace(
            0,
            cpu_ops=[Event("aten::copy_", 0, 10, 1)],
            runtime=[Event("cudaDeviceSynchronize", 20, 900, 1)],
            gpu=[copy(0, 1000)],
            annotations=[step(0, 0, 1000)],
        )
    )

    (first,) = found.findings
    assert first.kind == "cpu_bound"
    assert first.share == pytest.approx(0.9)
    assert first.text == (
        "The host waits 90 % of a step of 1 ms for the device, which only copies; its operators "
        "take 1.0 %."
    )
    assert first.more == "Of the time in copies: Memcpy HtoD (Pinned -> Device) 100 %."


def test_one_rank_of_many_says_that_its_collectives_may_be_waiting() -> None:
    marks = [step(number, 1000.0 * number, 990) for number in range(3)]
    gpu = [allreduce(1000.0 * number + 100, 600) for number in range(3)]
    rank = rank_trace(0, gpu=gpu, annotations=marks, groups=[world(1024)], world_size=1024)

    assert answered(rank).unknown[0] == (
        "1 of 1024 ranks is recorded: what it spends in collectives may be waiting for the others."
    )
    alone = rank_trace(0, gpu=gpu, annotations=marks, groups=[world(1)], world_size=1)
    assert not any("ranks is recorded" in text for text in answered(alone).unknown)


def test_a_device_that_works_for_a_moment_does_not_compute_all_the_time() -> None:
    moment = rank_trace(
        0, gpu=[kernel("sgemm", 0, 50)], runtime=[Event("cudaDeviceSynchronize", 0, 9950, 1)]
    )
    first = answered(moment).findings[0]

    assert (first.kind, first.share) == ("compute_bound", 1.0)
    assert first.text == (
        "The device computes 100 % of the 50 us between its first and last work, in a recording "
        "of 9.95 ms."
    )
    assert first.more == "Largest kernels: sgemm 100 %."


def test_a_host_that_does_next_to_nothing_is_not_said_to_be_busy() -> None:
    operators = [Event("aten::copy_", 0, 5, 1)]
    (first,) = answered(rank_trace(0, cpu_ops=operators, annotations=[step(0, 0, 1000)])).findings

    assert first.text == (
        "Nothing that is recorded runs on the host for 99.5 % of a step of 1 ms; its operators "
        "take 0.5 %."
    )


def test_a_step_without_any_work_is_a_recording_without_work() -> None:
    found = answered(rank_trace(0, annotations=[step(0, 0, 1000)]))

    assert found.findings[0].text == "No kernel ran in this recording of 1 rank: it holds 1 range."
    assert found.unknown == ("The recording contains no device work.",)


def test_the_mark_of_the_profiler_itself_is_no_range_of_another_program() -> None:
    mark = Event("PyTorch Profiler (0)", 0, 5000, 1)
    (first,) = answered(rank_trace(0, other=[mark])).findings

    assert first.text.endswith("it holds only the profiler's mark of itself.")


def test_of_two_ranks_of_four_the_other_recorded_one_waits() -> None:
    told = sentences.waiting_text(("2",), ("0", "2"), 0.46, ", 500 ms a step", all_here=False)

    assert told == "the other recorded rank waits for rank 2: 46 % of the time, 500 ms a step"


def test_selected_ranks_wait_for_one_that_is_not_selected() -> None:
    told = sentences.waiting_text(("0",), ("1", "2"), 0.34, "")

    assert told == "the selected ranks wait for rank 0: 34 % of the time"


def test_the_waiting_for_a_busy_rank_counts_once() -> None:
    """A rank sleeps 900 of 1,000 us: the three others wait, and its own time is counted as idle."""
    gpu = [
        [kernel("sgemm", 0, 50), allreduce(50, 950)],
        [kernel("sgemm", 0, 50), allreduce(50, 950)],
        [kernel("sgemm", 0, 50), kernel("sgemm", 940, 10), allreduce(950, 50)],
        [kernel("sgemm", 0, 50), allreduce(50, 950)],
    ]
    ranks = [rank_trace(rank, gpu=rows, world_size=4) for rank, rows in enumerate(gpu)]
    found = answered(*ranks).findings
    (waits,) = [one for one in found if one.kind == "waiting_for_rank"]

    assert waits.where.ranks == ("2",)
    assert waits.share == pytest.approx(0.675, abs=0.01)
    assert sum(one.share or 0.0 for one in found) <= 1.001


def late_hosts(monkeypatch: pytest.MonkeyPatch, idle_ms: float, saves_ms: float) -> Finding:
    """Two ranks that compute 60 us of 100 us, and a replay that saves so much without idle time."""
    gpu = [kernel("sgemm", 0, 50), kernel("sgemm", 90, 10)]
    ranks = [rank_trace(rank, gpu=gpu, world_size=2) for rank in range(2)]
    told = {"verdict": "host", "confidence": "medium", "culprit": None, "saves_ms": saves_ms}
    monkeypatch.setattr(Culprits, "verdict", told)
    idle = Finding(kind="host_bound", text="The host is too slow.", share=0.3, cost_ms=idle_ms)
    (found,) = Culprits(View(job(*ranks)), 0.1).refine([idle])
    return found


def test_late_hosts_that_keep_nobody_waiting_have_their_saving(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A replay saves less than what devices idle, so that no part of it is waiting for a rank."""
    found = late_hosts(monkeypatch, idle_ms=0.03, saves_ms=0.02)

    assert found.saves_ms == 0.02
    assert found.sure.how_much == "medium"


@pytest.mark.parametrize(("cause", "is_cause"), [("data_loading", True), ("host_work", False)])
def test_all_waiting_for_late_hosts_is_no_cost_of_what_other_hosts_did_meanwhile(
    cause: str, is_cause: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = [kernel("sgemm", 0, 20), kernel("sgemm", 90, 10)]
    ranks = [rank_trace(rank, gpu=gpu, world_size=2) for rank in range(2)]
    told = {"verdict": "host", "confidence": "medium", "culprit": None, "saves_ms": 0.06}
    monkeypatch.setattr(Culprits, "verdict", told)
    roots = [{"rank": "0", "cause": cause, "caused_wait_ms": 5.0}]
    monkeypatch.setattr(Culprits, "chain", {"roots": roots})
    loading = Finding(kind="data_loading", text="Data.", share=0.2, cost_ms=0.02)
    operators = Finding(kind="host_bound", text="Operators.", share=0.01, cost_ms=0.01)

    found, *_ = Culprits(View(job(*ranks)), 0.1).refine([loading, operators])

    # of the saving the other host's part is that of another finding
    assert found.saves_ms == (pytest.approx(0.05) if is_cause else None)
    assert found.share == (pytest.approx(0.5) if is_cause else 0.2)


def test_a_host_without_events_is_not_said_to_run_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    work = [kernel("sgemm", 0, 100)]
    operators = [Event("aten::mm", 0, 10, 1)]
    ranks = [rank_trace(0, gpu=work), rank_trace(1, gpu=work, cpu_ops=operators)]
    roots = [{"rank": one, "cause": "host_stall", "caused_wait_ms": 5.0} for one in ("0", "1")]
    monkeypatch.setattr(Culprits, "chain", {"roots": roots})

    culprits = Culprits(View(job(*ranks)), 0.1)

    assert culprits.cause_of("0") == sentences.UNRECORDED_HOST
    assert culprits.cause_of("1") == "host_stall"


def test_late_hosts_cost_no_more_than_the_time_in_which_no_device_computes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A replay of steps that begin before the first recorded work saves more than that."""
    found = late_hosts(monkeypatch, idle_ms=0.03, saves_ms=0.06)

    assert "40 % of the time is lost" in found.more
    assert found.saves_why == "with the ranks that then wait, a replay saves 40 us"


def test_idle_time_that_makes_one_step_slow_is_one_finding() -> None:
    """Four steps of 1 ms, the second of 2 ms, in 0.9 ms of which the host allocates memory."""
    gpu, marks, calls, at = [], [], [], 0.0
    for number, length in enumerate((1000.0, 2000.0, 1000.0, 1000.0)):
        gpu += [kernel("sgemm", at, 500, correlation=2 * number + 1)]
        gpu += [kernel("sgemm", at + length - 450, 450, correlation=2 * number + 2)]
        calls += [launch(2 * number + 1, at - 5), launch(2 * number + 2, at + length - 455)]
        marks.append(step(number, at - 10, length - 5))
        at += length
    calls.append(Event("cudaMalloc", 1550, 900, 1))
    calls.sort(key=lambda call: call.start_us)
    found = answered(rank_trace(0, gpu=gpu, annotations=marks, runtime=calls)).findings

    (idle,) = [one for one in found if one.where.steps]

    assert idle.kind == "host_allocation"
    assert "while the host allocates memory, all of it in step 1: 900 us." in idle.text
    assert idle.where.steps == (1,)


def test_a_slow_step_is_listed_where_what_explains_it_is_not() -> None:
    """60 steps of 10 ms, one of 17.6 ms: in 5.6 ms of it, 0.9 % of the time, the host allocates."""
    gpu, marks, calls, at = [], [], [], 0.0
    for number in range(60):
        length = 17_600.0 if number == 5 else 10_000.0
        gpu.append(kernel("sgemm", at, 5000, correlation=2 * number + 1))
        second = length - (10_600 if number == 5 else 5000)
        gpu.append(kernel("sgemm", at + length - second, second, correlation=2 * number + 2))
        calls.append(launch(2 * number + 1, at - 5))
        if number == 5:
            calls.append(Event("cudaMalloc", at + 5000, 5590, 1))
        calls.append(launch(2 * number + 2, at + length - second - 10))
        marks.append(step(number, at - 10, length - 5))
        at += length
    found = answered(rank_trace(0, gpu=gpu, annotations=marks, runtime=calls)).findings

    assert not [one for one in found if one.kind == "host_allocation"]
    (slow,) = [one for one in found if one.kind == "slow_steps"]
    assert slow.where.steps == (5,)
    assert slow.share == pytest.approx(7.6 / 607.6, rel=0.01)


@pytest.mark.parametrize(("calls", "long"), [(1, True), (50, False)])
def test_the_operator_that_a_device_waits_for_is_named(calls: int, long: bool) -> None:
    """Of 10 ms of waiting 8 ms pass in one operator, which small ones are inside of."""
    each = 8000 / calls
    ops: list[Event] = []
    for number in range(calls):
        ops.append(Event("aten::split_with_sizes", each * number, each, 1))
        ops.append(Event("aten::narrow", each * number + 1, 1, 1))
    ops.append(Event("aten::cat", 8000, 2000, 1))
    gpu = [kernel("a", 0, 5, correlation=1), kernel("b", 10010, 5, correlation=2)]
    trace = rank_trace(0, gpu=gpu, cpu_ops=ops, runtime=[launch(1, -5), launch(2, 10000)])

    first = answered(trace).findings[0]

    assert first.kind == "host_bound"
    assert first.where.kernel == "aten::split_with_sizes"
    assert first.more.startswith("80 % of that is spent in aten::split_with_sizes")
    assert ("8 ms of it in one call" in first.more) == long
    assert ("Find out why" in first.do) == long


def test_a_kernel_of_all_operations_is_called_communication() -> None:
    generic = Event("ncclDevKernel_Generic(ncclDevComm*)", 100, 400, 8)

    found = answered(rank_trace(0, gpu=[kernel("sgemm", 0, 100), generic])).findings

    (exposed,) = [one for one in found if one.kind == "exposed_communication"]
    assert exposed.text.startswith("Communication is not hidden: 80 % of the time")
    assert "perform all operations" in exposed.more


def test_a_delay_counts_once_where_others_have_it_in_the_next_step() -> None:
    """Steps of 1 ms; rank 0 is 4 ms late at the end of step 3, and rank 1 waits in step 4."""
    ranks = []
    for rank in range(2):
        gpu, marks = [], []
        for number in range(8):
            delay = 4000.0 if number > 3 else 0.0
            begin = 1000.0 * number + (0.0 if rank == 1 and number == 4 else delay)
            gpu += [kernel("sgemm", begin, 300), allreduce(1000.0 * number + delay + 300, 100)]
            marks.append(step(number, begin - 10, 900))
        ranks.append(rank_trace(rank, gpu=gpu, annotations=marks, world_size=2))

    (slow,) = [one for one in answered(*ranks).findings if one.kind == "slow_steps"]

    # of 12 ms on either rank
    assert slow.where.steps == (3, 4)
    assert slow.share == pytest.approx(1 / 3, abs=0.04)


def test_ranges_of_another_program_are_counted() -> None:
    first = answered(rank_trace(0, other=[Event("event/batch", 0, 5000, 1)])).findings[0]

    assert first.kind == "nothing"
    assert "it holds 1 range of a program other than the PyTorch profiler" in first.text
    assert first.more == "Largest ranges, including the ranges inside them: event/batch 5 ms."


def test_a_filtered_file_tells_how_long_its_kernels_last() -> None:
    name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    gpu = [kernel(name, 1000.0 * number, 100 + number) for number in range(101)]
    note = Note("text_filtered", "only some kernels were printed")
    first = answered(rank_trace(0, gpu=gpu, notes=[note])).findings[0]

    assert first.kind == "transfer_spread"
    assert first.text == (
        "SendRecv takes a median of 150 us, 195 us at the 95th percentile, and at most 200 us."
    )


KERNELS = """
 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances  Name
 --------  ---------------  ---------  ----------------------------------
     50.0             5000          2  gemm
     30.0             3000          4  ncclDevKernel_AllReduce_Sum_f32_RING_LL(Args)
"""


def totals(folder: Path, text: str) -> Answer:
    (folder / "stats.txt").write_text(text)
    return answer_of(View(open_job(folder)))


def test_shares_of_a_table_that_was_cut_are_those_that_it_prints(tmp_path: Path) -> None:
    found = totals(tmp_path, KERNELS)

    assert found.findings[0].text == "The kernel gemm takes 50.0 % of 10 us of kernel time."
    assert "AllReduce (nccl) 30.0 %; communication 30 % (4 all-reduces)" in found.findings[0].more
    assert "The text leaves out some rows; its shares are of all rows." in found.unknown


def test_rows_with_changed_blanks_are_read(tmp_path: Path) -> None:
    found = totals(
        tmp_path, KERNELS.replace("     50.0             5000          2", "50.0  5000  2")
    )

    assert found.findings[0].text == "The kernel gemm takes 50.0 % of 10 us of kernel time."


def test_text_that_cannot_be_read_says_where(tmp_path: Path) -> None:
    found = totals(tmp_path, KERNELS.replace("     50.0   ", "     50.0 x "))

    assert found.findings[0].text.startswith(
        "The text of nsys stats cannot be read: stats.txt:6:6: Time (%)"
    )


def test_the_metric_has_the_first_share_as_its_value() -> None:
    result = find("findings").run(view_of("training"))

    assert result.value == result.details["findings"][0]["share"]
    assert result.details["headline"] == result.details["findings"][0]["text"]


def test_a_list_of_recordings_is_headed_by_the_largest() -> None:
    rows = [Recording("a.json", 2, 3, "Copies run."), Recording("b.json", 1, None, "Nothing.")]

    assert choice_of(rows, "a.json").text == (
        "The folder holds 2 separate recordings; the one opened is a.json: copies run."
    )


NAMED: Mapping[str, tuple[dict[str, Any], str]] = {
    "slow_worker": ({"ranks": ["3"], "factor": 1.06}, "rank 3 computes 6 % longer than its peers"),
    "slow_node": (
        {"ranks": ["0", "1"], "host": "n7", "factor": 2.0},
        "all ranks of host n7 compute 2 times as long as their peers",
    ),
    "occasional_worker": (
        {"ranks": ["3"], "factor": 1.8, "steps": [4, 5]},
        "rank 3 computes 1.8 times as long as usual in steps 4-5",
    ),
    "heavy_stage": (
        {"ranks": ["6", "7"], "stage": 3, "factor": 1.6},
        "stage 3 (ranks 6-7) takes 1.6 times as long as the other stages",
    ),
    "slow_link": (
        {"ranks": ["0", "4"], "pair": ["0", "4"], "factor": 3.0},
        "transfers between ranks 0 and 4 take 3 times as long as other transfers",
    ),
}


@pytest.mark.parametrize("kind", NAMED)
def test_a_culprit_is_named_as_a_person_would(kind: str) -> None:
    culprit, text = NAMED[kind]

    assert named_text(kind, culprit, 0.131) == f"{text}: 13 % of the time is lost"


def test_ranks_of_a_stage_without_a_known_number_are_several() -> None:
    text = named_text("heavy_stage", {"ranks": ["4", "5"], "factor": 1.6}, 0.131)

    assert text.startswith("ranks 4-5 take 1.6 times as long as the other stages:")


def test_every_cause_of_idle_and_late_ranks_has_a_sentence() -> None:
    assert set(sentences.IDLE) == set(idle_causes.CAUSES)
    assert set(cause_search.CAUSES) - {cause_search.UNKNOWN} <= set(sentences.CAUSES)


def test_every_class_has_a_meaning() -> None:
    assert set(sentences.CLASSES) == set(get_args(Kind))


def test_numbers_are_those_that_a_person_says() -> None:
    times = (0.0004, 0.3, 6.32, 749.2, 2214.0, 46_600.0, 429_218.0, 9.1e6)
    assert [time_text(one) for one in times] == [
        *("400 ns", "300 us", "6.32 ms", "749 ms"),
        *("2.21 s", "46.6 s", "7 min 9 s", "2 h 31 min"),
    ]
    assert [percent(one) for one in (0.683, 0.085, 0.0004, 1.0, 0.9966)] == [
        *("68 %", "8.5 %", "less than 0.1 %", "100 %", "99.7 %"),
    ]
    assert [factor(one) for one in (1.06, 2.2)] == ["6 % longer", "2.2 times as long"]
    assert ranks_text(["2"]) == "rank 2"
    assert ranks_text([str(one) for one in (*range(6), 7)]) == "ranks 0-5 and 7"
    assert ranks_text([str(2 * one) for one in range(9)]) == "ranks 0, 2, 4 and 6 more up to 16"
    assert sentence("copies run.") == "Copies run."


def test_no_sentence_begins_with_what_cannot_be_told() -> None:
    every: list[Finding] = list(late_job(200).findings)
    every += answer_of(view_of("training")).findings

    for one in every:
        assert not one.text.startswith(("I cannot", "Nobody", "It is not known"))
        assert len(one.text) <= sentences.MOST_CHARACTERS
        assert one.saves_ms is not None or one.saves_why or one.kind == "choice"


def test_ranks_that_are_missing_may_be_the_late_ones() -> None:
    ranks = [
        rank_trace(
            rank,
            gpu=[
                kernel("gemm", 0, 500 + 400 * (rank == 1)),
                allreduce(500 + 400 * (rank == 1), 500 - 400 * (rank == 1)),
            ],
            world_size=4,
        )
        for rank in range(2)
    ]
    waits = [one for one in answered(*ranks).findings if one.kind == "waiting_for_rank"]

    assert all(one.sure.who in ("low", "unknown") for one in waits)
    assert sentences.waiting_text(("6",), ("0", "1", "2", "3"), 0.3, "", all_here=False) == (
        "the other recorded ranks wait for rank 6: 30 % of the time"
    )
