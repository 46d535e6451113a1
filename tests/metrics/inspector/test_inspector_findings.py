"""The answer on logs of NCCL Inspector: planted faults, and logs with parts lacking."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from inspector_jobs import FAULTS, Fault, Job, drawn, write
from inspector_lines import call, line, write_job
from msgspec.structs import replace
from runs_by_hand import view_of

from ccltui.metrics.catalog.time.findings import answer_of
from ccltui.metrics.findings.finding import Answer, Finding
from ccltui.metrics.inspector.inspector_job import inspector_job
from ccltui.metrics.inspector.late_roots import lateness


def small(fault: Fault, seed: int) -> Job:
    """A job of two hosts for two minutes, of which every record is written."""
    job = drawn(seed, fault)
    return replace(
        job,
        hosts=2,
        per_host=4,
        who=job.who % 8,
        step_us=250_000,
        steps=480,
        interval_s=5.0,
        form="rings",
        ring=1024,
        has_world=True,
    )


def answered(folder: Path) -> Answer:
    return answer_of(view_of(folder))


def named(finding: Finding) -> object:
    """Who or what a finding names."""
    where = finding.where
    if finding.kind == "waiting_for_rank":
        return where.ranks[0] if len(where.ranks) == 1 else where.host
    if finding.kind != "slow_link":
        return finding.kind
    return (where.ranks[0] if len(where.ranks) == 1 else where.ranks) or "drop"


@pytest.mark.parametrize("fault", FAULTS)
def test_the_planted_fault_is_named_and_nothing_else(tmp_path: Path, fault: Fault) -> None:
    job = small(fault, 3)
    write(tmp_path, job, 3)
    expected = job.culprit or {"drop": "drop", "turns": "random"}.get(fault, "run_log")

    found = [named(one) for one in answered(tmp_path).findings]

    assert found == ([expected] if fault == "even" else [expected, "run_log"])


def test_a_rank_that_was_held_up_is_not_named(tmp_path: Path) -> None:
    job = small("rank", 1)
    write(tmp_path, job, 1)

    late = answered(tmp_path).findings[0]

    assert late.where.ranks == (job.culprit,)
    assert "held up with it: ranks" in late.more


def test_a_sample_that_shows_next_to_no_waiting_is_even(tmp_path: Path) -> None:
    # one of hundreds of collectives is written: 0.01 % of the time, 2.8 % if all are alike
    often = replace(small("even", 5), ring=1, jitter=200.0, step_us=20_000, interval_s=4.0)
    write(tmp_path, replace(often, steps=4000), 5)

    assert [one.kind for one in answered(tmp_path).findings] == ["run_log"]


def test_a_slow_link_in_a_recording_of_two_dumps(tmp_path: Path) -> None:
    for rank in range(8):
        pair = (f"0x{rank % 4}7", "mesh_dp", rank // 4, 2)
        lines = [
            line(rank, call("AllGather", number, 16_000_000, 3200 if rank % 4 == 2 else 1000),
                 second=5 * (number // 20), comm=pair)
            for number in range(40)
        ]  # fmt: skip
        (tmp_path / f"{rank}.log").write_text("".join(lines))

    assert answered(tmp_path).findings[0].text == (
        "The link of node-a:40002 and node-b:40006 is slow: AllGather of mesh_dp reaches 5 GB/s of "
        "bus bandwidth, groups of the same size reach 16; 0.2 % of the time is lost "
        "(NCCL Inspector)."
    )


def test_one_dump_tells_no_share_of_time(tmp_path: Path) -> None:
    for rank in range(4):
        lines = [line(rank, call("AllReduce", number, 1 << 20, 100 if rank == 3 else 2100),
                      comm=("0x1", "world", rank, 4)) for number in range(30)]  # fmt: skip
        (tmp_path / f"{rank}.log").write_text("".join(lines))

    late = answered(tmp_path).findings[0]

    assert (late.share, late.cost_ms) == (None, None)
    assert late.text == (
        "The others wait 180 ms for rank 3, which arrives 2 ms late at AllReduce of world "
        "(NCCL Inspector)."
    )


def test_of_two_equal_groups_the_slower_is_named_with_little_certainty(tmp_path: Path) -> None:
    for rank in range(4):
        pair = (f"0x{rank % 2}7", "mesh_dp", rank // 2, 2)
        lines = [line(rank, call("AllGather", second, 16_000_000, 3200 if rank % 2 else 1000),
                      second=second, comm=pair) for second in range(60)]  # fmt: skip
        (tmp_path / f"{rank}.log").write_text("".join(lines))

    slow = answered(tmp_path).findings[0]

    assert "the one other group of this size reaches 16" in slow.text
    assert slow.sure.who == "low"


def test_groups_of_smaller_messages_are_not_slow_where_they_take_as_long(tmp_path: Path) -> None:
    for rank in range(6):
        pair = (f"0x{rank % 3}7", "mesh_dp", rank // 3, 2)
        size = 9000 if rank % 3 == 1 else 15_900  # one size class: 8192 to 16383
        lines = [line(rank, call("AllGather", second, size, 30), second=second, comm=pair)
                 for second in range(60)]  # fmt: skip
        (tmp_path / f"{rank}.log").write_text("".join(lines))

    assert [one.kind for one in answered(tmp_path).findings] == ["run_log"]


def test_logs_of_one_rank_say_what_is_lacking(tmp_path: Path) -> None:
    folder = write_job(tmp_path)
    for path in sorted(folder.iterdir())[1:]:
        path.unlink()
    answer = answered(folder)

    assert answer.headline == (
        "AllReduce of default_pg takes a median of 2.5 ms on rank 0, waiting for the others "
        "included (NCCL Inspector)."
    )
    assert "logs of all ranks" in answer.findings[0].do
    assert "Only 1 rank of 8 left records" in answer.unknown[1]


def test_a_log_that_is_cut_leaves_less_to_compare(tmp_path: Path) -> None:
    folder = write_job(tmp_path)
    path = folder / "node-a-pid40003.log"
    path.write_text(path.read_text()[: path.stat().st_size // 3])
    answer = answered(folder)

    assert named(answer.findings[0]) == ("2", "6")  # rank 5 is late after the cut
    assert any("were recorded by all of their ranks" in one for one in answer.unknown)
    assert "its last line is cut off" in answer.unknown[-1]


def test_logs_without_a_record_say_which_settings_write_some(tmp_path: Path) -> None:
    text = line(0, call("AllReduce", 1, 1 << 20, 100))
    (tmp_path / "node-a-pid1.log").write_text(text[: len(text) - 20])
    found = answered(tmp_path).findings[0]

    assert found.text.startswith("The logs of NCCL Inspector hold nothing to compare: node-a-pid1")
    assert "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS" in found.do


def test_empty_files_are_called_empty(tmp_path: Path) -> None:
    for pid in (1, 2):
        (tmp_path / f"node-a-pid{pid}.log").write_text("")
    found = answered(tmp_path).findings[0]

    assert found.text == "No profiler trace found, only 2 empty files."
    assert "the disk is full" in found.do


def gauges(
    folder: Path, times_us: dict[tuple[str, int], float], *, ranks: int, nodes: int = 1
) -> None:
    """Write what Prometheus is given of an AllGather, by host and device."""
    for (node, gpu), time_us in times_us.items():
        labels = (
            f'node="{node}",gpu="GPU{gpu}",comm_name="dp",n_nodes="{nodes}",nranks="{ranks}",'
            'collective="AllGather",message_size="16-17MB"'
        )
        rate = 16_777_216 / time_us / 1e3
        text = (
            f"nccl_bus_bandwidth_gbs{{{labels}}} {rate:.6g}\n"
            f"nccl_collective_exec_time_microseconds{{{labels}}} {time_us:.6g}\n"
        )
        (folder / f"nccl_inspector_metrics_{node}-{gpu}.prom").write_text(text)


def test_of_prometheus_the_device_that_waits_for_nobody_is_late(tmp_path: Path) -> None:
    times = {("node-a", gpu): 1000.0 if gpu == 2 else 4000.0 for gpu in range(4)}
    gauges(tmp_path, times, ranks=4)
    late, reached = answered(tmp_path).findings

    assert late.text == (
        "The others wait for GPU2 of node-a: it arrives 3 ms late at AllGather of 16-17MB in dp, "
        "on average of the last interval (NCCL Inspector)."
    )
    assert (late.where.host, late.sure.who) == ("node-a", "low")
    assert reached.kind == "run_log"


def test_of_prometheus_the_slow_one_of_several_communicators(tmp_path: Path) -> None:
    times = {(node, gpu): 3000.0 if gpu == 2 else 1000.0
             for node in ("node-a", "node-b") for gpu in range(4)}  # fmt: skip
    gauges(tmp_path, times, ranks=2)

    assert answered(tmp_path).headline == (
        "AllGather of 16-17MB in dp reaches 5.59 GB/s of bus bandwidth on GPU2 of node-a and GPU2 "
        "of node-b, 16.8 on the others (NCCL Inspector)."
    )


def test_of_prometheus_even_devices_are_not_named(tmp_path: Path) -> None:
    gauges(tmp_path, {("node-a", gpu): 1000.0 + gpu for gpu in range(4)}, ranks=8)
    (reached,) = answered(tmp_path).findings

    assert "GPU" not in reached.text
    assert "devices differ by 0.3 %" in reached.text


def test_of_prometheus_devices_of_as_many_communicators_are_not_compared(tmp_path: Path) -> None:
    # one host of eight: each of its devices is in another communicator, with one of each host
    times = {("node-a", gpu): 1000.0 if gpu == 2 else 4000.0 for gpu in range(8)}
    gauges(tmp_path, times, ranks=8, nodes=8)

    assert [one.kind for one in answered(tmp_path).findings] == ["run_log"]


def written(folder: Path, late_us: Callable[[int, int], int], *, seconds: int = 600) -> None:
    """Write a collective a second of four ranks; ``late_us`` is by rank and number."""
    for rank in range(4):
        lines = []
        for number in range(seconds):
            last = max(late_us(one, number) for one in range(4))
            perf = call("AllReduce", number, 1 << 20, 100 + last - late_us(rank, number))
            lines.append(line(rank, perf, second=number, comm=("0x1", "world", rank, 4)))
        (folder / f"{rank}.log").write_text("".join(lines))


def test_equal_groups_at_different_times_are_not_compared(tmp_path: Path) -> None:
    for rank in range(4):
        begin = 100 * (rank % 2)
        pair = (f"0x{rank % 2}7", "mesh_dp", rank // 2, 2)
        lines = [line(rank, call("AllGather", second, 16_000_000, 1000), second=second, comm=pair)
                 for second in range(begin, begin + 50)]  # fmt: skip
        (tmp_path / f"{rank}.log").write_text("".join(lines))

    assert [one.kind for one in answered(tmp_path).findings] == ["run_log"]


def test_of_two_that_are_late_in_turn_the_rarer_is_not_named(tmp_path: Path) -> None:
    def late_us(rank: int, number: int) -> int:
        is_third = number % 10 < 7 and number < 550
        return {3: 2000 * is_third, 2: 3000 * (not is_third)}.get(rank, 0)

    written(tmp_path, late_us)
    late = answered(tmp_path).findings[0]

    assert (late.where.ranks, late.sure.who) == (("3",), "low")


def test_a_rank_that_is_always_late_is_named_beside_hiccups_of_another(tmp_path: Path) -> None:
    written(
        tmp_path, lambda rank, number: {3: 20_000, 2: 250_000 * (number % 20 == 7)}.get(rank, 0)
    )
    late = answered(tmp_path).findings[0]

    assert "for rank 3, which arrives 20 ms late at AllReduce of world" in late.text
    assert "at other calls they wait for another rank" in late.more
    assert late.sure.who == "low"


def test_ranks_that_are_late_in_turn_do_not_arrive_together(tmp_path: Path) -> None:
    written(tmp_path, lambda rank, number: 2000 * (rank == number % 4))

    # three of four ranks wait 2 ms at each call
    assert "a rank waits 2 ms for the last on average" in answered(tmp_path).headline


def test_ranks_late_in_turn_in_records_of_one_moment(tmp_path: Path) -> None:
    for rank in range(4):
        lines = [line(rank, call("AllReduce", number, 1 << 20, 100 if number % 4 == rank else 2100),
                      comm=("0x1", "world", rank, 4)) for number in range(40)]  # fmt: skip
        (tmp_path / f"{rank}.log").write_text("".join(lines))
    turns = answered(tmp_path).findings[0]

    assert (turns.kind, turns.share) == ("random", None)
    assert turns.text.startswith("Ranks wait 240 ms for each other at collectives, and no one")


def records(rank: int, ident: str, operation: str, times_us: list[int], *, size: int = 1) -> str:
    """The lines of a rank of four: a collective a second."""
    return "".join(
        line(rank, call(operation, second, size << 20, time_us), second=second,
             comm=(ident, ident, rank, 4))
        for second, time_us in enumerate(times_us)
    )  # fmt: skip


def test_waits_at_collectives_that_overlap_are_counted_once(tmp_path: Path) -> None:
    for rank in range(4):
        times = [100_000 if rank == 3 else 900_000] * 60
        text = records(rank, "0x1", "AllReduce", times) + records(rank, "0x2", "AllGather", times)
        (tmp_path / f"{rank}.log").write_text(text)
    late = answered(tmp_path).findings[0]

    assert late.share == pytest.approx(0.8 * 3 / 4)
    assert "wait at least 60 % of the time" in late.text


def test_who_only_sends_is_not_late(tmp_path: Path) -> None:
    for rank in range(4):
        times = [100 if rank == 0 else 2000] * 60
        (tmp_path / f"{rank}.log").write_text(records(rank, "0x1", "Broadcast", times))
    (reached,) = answered(tmp_path).findings

    assert reached.text.startswith("No group is slow: Broadcast of 0x1 reaches")
    assert "rank" not in reached.text


@pytest.mark.parametrize("number", [1, 2])
def test_few_collectives_tell_what_is_reached_only(tmp_path: Path, number: int) -> None:
    for rank in range(4):
        text = records(rank, "0x1", "AllReduce", [1000] * number)
        (tmp_path / f"{rank}.log").write_text(text)

    assert answered(tmp_path).headline.startswith("AllReduce of 0x1 reaches 1.57 GB/s")


@pytest.mark.parametrize(
    ("operation", "time_us", "size", "text"),
    [
        ("All2All", 1000, 1, "No rank is late: ranks arrive together"),
        ("AllReduce", 1000, 0, "No rank is late: ranks arrive together"),
        ("AllReduce", 0, 1, "The records hold no arrivals and no sizes that can be compared"),
    ],
)
def test_only_what_was_compared_is_called_even(
    tmp_path: Path, operation: str, time_us: int, size: int, text: str
) -> None:
    for rank in range(4):
        lines = records(rank, "0x1", operation, [time_us] * 60, size=size)
        (tmp_path / f"{rank}.log").write_text(lines)

    assert answered(tmp_path).headline == f"{text} (NCCL Inspector)."


def test_communicators_of_one_rank_hold_nothing_to_compare(tmp_path: Path) -> None:
    for rank in range(4):
        text = "".join(line(rank, call("AllReduce", one, 1 << 20, 9), comm=(f"0x{rank}1", "", 0, 1))
                       for one in range(30))  # fmt: skip
        (tmp_path / f"{rank}.log").write_text(text)

    assert "all communicators have one rank" in answered(tmp_path).headline


def test_a_rank_that_nobody_else_recorded_with_has_its_host_and_process(tmp_path: Path) -> None:
    for rank in range(2):
        text = line(rank, call("AllReduce", 1, 1 << 20, 9), comm=(f"0x{rank}1", "tp", 0, 2))
        (tmp_path / f"{rank}.log").write_text(text)

    assert "on process node-a:4000" in answered(tmp_path).headline


def test_a_rare_communicator_does_not_lengthen_the_time_that_was_recorded(tmp_path: Path) -> None:
    for rank in range(4):
        text = records(rank, "0x1", "AllReduce", [1000] * 60)
        for ident in ("0x2", "0x3"):
            rare = [line(rank, call("AllReduce", second, 1 << 20, 9), second=second,
                         comm=(ident, "rare", rank, 4)) for second in (0, 50)]  # fmt: skip
            text += "".join(rare)
        (tmp_path / f"{rank}.log").write_text(text)

    assert inspector_job(view_of(tmp_path)).facts.recorded_s == 60


def test_a_last_window_with_few_collectives_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    # windows of ten seconds: rank 3 is late in the third to the fifth, and the last has one call
    written(tmp_path, lambda rank, n: 2000 * (rank == 3 and 20 <= n < 50), seconds=91)
    (root,) = lateness(inspector_job(view_of(tmp_path))).roots

    assert root.windows == (2, 3, 4)


def test_lateness_in_turn_is_seen_in_a_sample_of_the_collectives(tmp_path: Path) -> None:
    # one of 80 is written: 0.05 % of the time
    job = replace(small("turns", 3), ring=1, jitter=20.0, step_us=50_000, interval_s=2.0)
    write(tmp_path, replace(job, steps=3000), 3)
    turns = answered(tmp_path).findings[0]

    assert turns.kind == "random"
    assert "of the time if all are like the " in turns.text
    assert turns.share is not None
    assert turns.share < 0.002
