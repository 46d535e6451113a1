"""Files of planted jobs, read back by the readers of every other trace."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from ccltui.demo.planted import Damage, Fault, JobSpec, build_job, random_spec, write_planted
from ccltui.demo.planted.job_spec import Times
from ccltui.demo.planted.planted_job import PlantedJob
from ccltui.parsers.job import open_job

SMALL = JobSpec(dp=4, steps=3, micro_batches=2, layers=1, kernel_ns=100_000)


def events(job: PlantedJob, rank: int) -> list[dict[str, Any]]:
    document = orjson.loads(job.files[f"kineto_trace_{rank}.json"])
    return list(document["traceEvents"])


def kernels(job: PlantedJob, rank: int) -> list[dict[str, Any]]:
    return [event for event in events(job, rank) if event["cat"] == "kernel"]


def calls(job: PlantedJob, rank: int) -> list[dict[str, Any]]:
    return [event for event in kernels(job, rank) if event["name"].startswith("nccl")]


def device_rows(spec: JobSpec) -> list[dict[str, Any]]:
    return [row for row in events(build_job(spec), 0) if row["cat"] in ("kernel", "gpu_memcpy")]


def test_kernels_alone_are_linked_to_nothing() -> None:
    rows = device_rows(replace(SMALL, level="kernels"))

    assert {row["cat"] for row in rows} == {"kernel"}
    assert not any("correlation" in row["args"] for row in rows)


def test_a_pass_of_one_kernel_and_a_replay_are_launched_once() -> None:
    passes = 2 * SMALL.steps * SMALL.micro_batches
    fused = device_rows(replace(SMALL, one_kernel=True))
    replayed = device_rows(replace(SMALL, graphs=True))

    gemms = [row for row in fused if "gemm" in row["name"]]
    assert len(gemms) == passes
    launches = Counter(row["args"]["correlation"] for row in replayed)
    assert sum(count > 1 for count in launches.values()) == passes


@pytest.mark.parametrize(("times", "step_us"), [("us", 1), ("float32", 2**-17 * 1e6)])
def test_times_are_rounded_as_the_recorder_does(times: Times, step_us: float) -> None:
    exact, rounded = (device_rows(replace(SMALL, times=one)) for one in ("ns", times))

    apart = [abs(a["ts"] - b["ts"]) for a, b in zip(exact, rounded, strict=True)]
    assert 0 < max(apart) <= step_us


def test_kernels_of_hidden_waits_start_when_all_are_there() -> None:
    slow = replace(SMALL, faults=(Fault("slow_worker", (2,), 2.0),))
    waits = [
        max(row["dur"] for row in device_rows(one) if "AllReduce" in row["name"])
        for one in (slow, replace(slow, hidden_waits=True))
    ]

    assert waits[1] < waits[0] / 2


def test_one_seed_is_one_job() -> None:
    assert random_spec(5) == random_spec(5) != random_spec(6)
    assert build_job(SMALL).files == build_job(SMALL).files


def test_the_reader_finds_ranks_hosts_steps_and_groups(tmp_path: Path) -> None:
    spec = replace(SMALL, family="pp", dp=2, tp=2, pp=2, gpus_per_node=4)
    write_planted(tmp_path / "job", spec)

    job = open_job(tmp_path / "job", cache_dir=tmp_path / "cache", jobs=1)

    assert sorted(trace.rank for trace in job.ranks if trace.rank is not None) == list(range(8))
    assert {trace.world_size for trace in job.ranks} == {8}
    assert {trace.host for trace in job.ranks} == {"node-00", "node-01"}
    assert {len(trace.process_groups) for trace in job.ranks} == {4}
    assert not any(trace.notes for trace in job.ranks)


def test_clocks_of_hosts_are_off_and_drift() -> None:
    spec = replace(SMALL, gpus_per_node=2, clock_offsets_ns=(0, 7_000_000))
    drifting = replace(spec, clock_drifts_ppb=(0, 50_000))

    def last_us(job: PlantedJob, rank: int) -> float:
        return max(float(event["ts"] + event["dur"]) for event in calls(job, rank))

    off = last_us(build_job(spec), 2) - last_us(build_job(spec), 0)
    further = last_us(build_job(drifting), 2) - last_us(build_job(spec), 2)

    assert off == pytest.approx(7_000, abs=10)
    assert further == pytest.approx(
        50e-6 * build_job(spec).truth.step_ms * 3 * 1e3, rel=0.02, abs=0.1
    )


@pytest.mark.parametrize(
    ("level", "has_operators", "has_groups", "has_launches"),
    [
        ("full", True, True, True),
        ("no_groups", True, False, True),
        ("names", False, False, True),
        ("no_host", False, False, False),
    ],
)
def test_levels_differ_in_what_they_record(
    level: Any, has_operators: bool, has_groups: bool, has_launches: bool
) -> None:
    job = build_job(replace(SMALL, level=level))
    found = events(job, 0)

    assert any(event["cat"] == "cpu_op" for event in found) is has_operators
    assert any("Process Group Name" in event["args"] for event in found) is has_groups
    assert any(event["cat"] == "cuda_runtime" for event in found) is has_launches
    assert len(calls(job, 0)) == len(calls(build_job(SMALL), 0))


def test_a_late_window_lacks_the_first_calls_and_their_metadata() -> None:
    whole = calls(build_job(SMALL), 1)
    late = calls(build_job(replace(SMALL, damage=(Damage("late", 1, calls=3),))), 1)

    assert len(whole) - 3 <= len(late) <= len(whole) - 1
    assert late == whole[-len(late) :] or "Seq" not in late[0]["args"]
    assert late[-1] == whole[-1]


def test_an_early_end_lacks_the_last_calls() -> None:
    whole = calls(build_job(SMALL), 1)
    early = calls(build_job(replace(SMALL, damage=(Damage("early", 1, calls=2),))), 1)

    assert early == whole[:-2]


def test_a_rank_that_lost_all_calls_can_be_damaged_further() -> None:
    """Two kinds of damage may meet on one rank; the first may leave no call to count from."""
    everything = Damage("early", 1, calls=1_000)
    for second in (Damage("late", 1, calls=2), everything):
        job = build_job(replace(SMALL, damage=(everything, second)))
        assert calls(job, 1) == calls(build_job(replace(SMALL, damage=(everything,))), 1)


def test_dropped_records_are_missing_in_runs() -> None:
    whole = kernels(build_job(SMALL), 2)
    left = kernels(build_job(replace(SMALL, damage=(Damage("dropped", 2, share=0.1),))), 2)

    assert 0.85 * len(whole) < len(left) < 0.95 * len(whole)


def test_a_missing_rank_has_no_file_and_one_by_names_no_groups() -> None:
    job = build_job(replace(SMALL, damage=(Damage("missing", 1), Damage("names_only", 2))))

    assert sorted(job.files) == [f"kineto_trace_{rank}.json" for rank in (0, 2, 3)]
    assert job.truth.recorded == (0, 2, 3)
    assert not any("Seq" in event["args"] for event in calls(job, 2))
    assert all("Seq" in event["args"] for event in calls(job, 3))


def test_copy_engines_leave_copies_and_no_kernel() -> None:
    spec = replace(SMALL, family="fsdp", gather="copy_engine")
    found = events(build_job(spec), 0)

    copies = [event for event in found if event["name"].startswith("Memcpy PtoP")]
    gathers = spec.steps * 2 * spec.micro_batches * spec.layers
    assert len(copies) == gathers * 3
    assert not any("AllGather" in event["name"] for event in found)
    records = [event for event in found if event["name"] == "record_param_comms"]
    assert sum(e["args"]["Collective name"] == "_allgather_base" for e in records) == gathers


def test_experts_exchange_by_deepep_kernels_or_uneven_all_to_alls() -> None:
    moe = replace(SMALL, family="moe", faults=(Fault("uneven_experts", (2,), 2.0),))
    deep = kernels(build_job(replace(moe, exchange="deepep")), 0)
    names = {event["name"].split("<")[0] for event in deep if "deep_ep" in event["name"]}
    assert names == {
        f"void deep_ep::intranode::{kind}" for kind in ("notify_dispatch", "dispatch", "combine")
    }

    sent = [
        orjson.loads(event["args"]["In split size"])
        for event in calls(build_job(moe), 0)
        if event["args"]["Collective name"] == "all_to_allv"
    ]
    assert all(splits[2] > 1.5 * splits[1] for splits in sent[::2])


def test_costs_are_the_difference_to_the_same_draws() -> None:
    spec = replace(SMALL, faults=(Fault("slow_worker", (1,), 1.4),))

    truth, clean = build_job(spec).truth, build_job(SMALL).truth

    assert truth.clean_step_ms == clean.step_ms
    assert truth.cost_ms == pytest.approx(truth.step_ms - clean.step_ms)
    assert (truth.verdict, truth.faults[0].ranks) == ("slow_worker", (1,))
    assert (clean.verdict, clean.faults) == ("no_straggler", ())


def test_a_heavy_stage_costs_less_when_its_work_is_shared_out() -> None:
    spec = replace(
        SMALL,
        family="pp",
        dp=2,
        pp=2,
        faults=(Fault("heavy_stage", (2, 3), 1.8, stage=1),),
    )
    fault = build_job(spec).truth.faults[0]

    assert 0 < fault.cost_ms < 0.8 * fault.removed_ms
    assert fault.cost_ms == fault.shared_ms


def test_a_slow_host_of_whole_stages_may_be_a_heavy_stage() -> None:
    spec = replace(SMALL, family="pp", dp=4, pp=2, gpus_per_node=4)
    slow = Fault("slow_node", (4, 5, 6, 7), 1.5)
    (whole,) = build_job(replace(spec, faults=(slow,))).truth.faults
    assert whole.also_right == ("heavy_stage",)
    assert whole.shared_ms is not None
    assert 0 < whole.shared_ms < whole.cost_ms == whole.removed_ms

    split = replace(spec, dp=2, tp=2, pp=2, gpus_per_node=2, faults=(replace(slow, ranks=(4, 5)),))
    (part,) = build_job(split).truth.faults
    assert (part.also_right, part.shared_ms) == ((), None)


def test_a_decoy_costs_nothing() -> None:
    truth = build_job(replace(SMALL, faults=(Fault("decoy", (1,), 2.0),))).truth

    assert truth.verdict == "no_straggler"
    assert truth.cost_ms == pytest.approx(0, abs=0.001 * truth.step_ms)


def test_answers_lie_outside_the_directory_and_foreign_files_stay(tmp_path: Path) -> None:
    directory, answer = tmp_path / "job", tmp_path / "answer.json"
    write_planted(directory, SMALL, answer=answer)
    assert sorted(path.name for path in directory.iterdir()) == [
        f"kineto_trace_{rank}.json" for rank in range(4)
    ]
    assert orjson.loads(answer.read_bytes())["verdict"] == "no_straggler"

    (directory / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"notes\.txt"):
        write_planted(directory, SMALL)
    assert (directory / "notes.txt").read_text() == "mine"


def test_what_no_layout_can_have_is_refused() -> None:
    with pytest.raises(ValueError, match="no layout"):
        random_spec(0, family="dp", fault="heavy_stage")
    with pytest.raises(ValueError, match="not in a job"):
        JobSpec(dp=2, faults=(Fault("slow_worker", (5,), 2.0),))
    with pytest.raises(ValueError, match="micro-batches"):
        JobSpec(family="pp", pp=4, micro_batches=6, chunks=2)
