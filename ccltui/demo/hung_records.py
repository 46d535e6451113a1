"""All records of a job that hangs in a known way: dumps, RAS, Inspector, logs, a trace before it.

A real job leaves some of them: which are missing is drawn, and so is whether the rank at fault, or
another one, was slow for the last part of an hour before.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from ccltui.demo.demo_job import CARD_NAME, build
from ccltui.demo.hung_job import START_NS, Op, Outcome, Plan, RankState, plan, run
from ccltui.demo.kineto_writer import BASE_NS
from ccltui.demo.kineto_writer import START_NS as TRACE_START_NS
from ccltui.demo.spec import Spec, Straggler

FAULTS: Final = (
    *("late", "crashed", "lost_file", "host_loop", "two_late", "operation", "size", "left_out"),
    *("order", "deadlock", "network", "none"),
)
"""As in `hung_job`; a host in a loop, whose process answers; two groups in the other order."""
_SEEDS_APART: Final = 1_000_003
_GPUS: Final = 4
_HISTORY_S: Final = 3600
_INTERVAL_S: Final = 30
WINDOW_BEFORE_NS: Final = 120 * 10**9
"""From the first recorded step to the hang: less than any rank was slow for."""
_WINDOW_STEPS: Final = 5
_WINDOW_DELAY_NS: Final = 3_000_000
"""Of a step of the slow rank: a fifth to a half of its time in jobs of one layer a stage."""
_NCCL: Final = {
    "all_reduce": "AllReduce",
    "_all_gather_base": "AllGather",
    "_reduce_scatter_base": "ReduceScatter",
    "broadcast": "Broadcast",
}
_HEAD: Final = "[rank{rank}]:[E1218 20:27:{second:02}.426415540 ProcessGroupNCCL.cpp:629] "


class Kept(Struct, frozen=True):
    """Which records a job leaves.

    Attributes:
        dumps: Ranks with a dump, () for none.
        reports: Number of reports of RAS, 0 to 2.
        logs: Whether the log of the watchdogs is there.
        inspector: Whether records of NCCL Inspector are there.
        slow: A rank that was slow before the hang, -1 for none.
        slow_minutes: For how long.
        window: Whether traces of the last steps are there: of the job, or of one of other size.
    """

    dumps: tuple[int, ...]
    reports: int
    logs: bool
    inspector: bool
    slow: int
    slow_minutes: int
    window: Literal["", "same", "other"] = ""


class MixedJob(Struct, frozen=True):
    """A job, what is left when nothing moves, and which records of it there are."""

    plan: Plan
    outcome: Outcome
    kept: Kept

    @property
    def truth(self) -> tuple[int, ...]:
        """Ranks to be named; () for nobody."""
        return self.plan.truth(is_hung=self.outcome.is_hung)


def mixed_job(seed: int, fault: str | None = None) -> MixedJob:
    """Return the job of a seed, with a fault of `FAULTS`, any where it is None."""
    dice = random.Random(seed ^ 0x5EED)
    chosen = dice.choice(FAULTS) if fault is None else fault
    for number in itertools.count(seed, _SEEDS_APART):
        one = plan(number)
        if one.backend != "nccl" or one.version == "2.1":
            continue
        one = replace(one, fault=chosen, only_active=False, ring=2000, timing=False)
        if chosen == "deadlock":
            one = replace(one, other=_diagonal(one))
        outcome = run(one)
        if outcome.is_hung or chosen == "none":  # an order that differs need not hang
            return MixedJob(one, outcome, _kept(one, outcome, dice))
    raise AssertionError("seeds do not end")


def _diagonal(one: Plan) -> int:
    """Return a rank of the same stage in other groups: two such wait for each other over four."""
    tp, dp = one.rank % one.tp, one.rank // one.tp % one.dp
    stage = one.rank - tp - one.tp * dp
    return stage + (tp + 1) % one.tp + (dp + 1) % one.dp * one.tp


def _kept(one: Plan, outcome: Outcome, dice: random.Random) -> Kept:
    with_dump = list(outcome.dumps)
    if dice.random() < 0.2:
        with_dump = []
    elif dice.random() < 0.2:
        with_dump.remove(dice.choice(with_dump))
    reports = dice.choice((0, 1, 2, 2))
    logs = dice.random() < 0.6 or not (with_dump or reports)
    others = [rank for rank in range(one.world) if rank != one.rank]
    slow = dice.choice((one.rank, one.rank, dice.choice(others), -1))
    inspector, minutes = dice.random() < 0.6, dice.randrange(5, 45)
    windows: tuple[Literal["", "same", "other"], ...] = ("", "same", "same", "other")
    return Kept(tuple(with_dump), reports, logs, inspector, slow, minutes, dice.choice(windows))


def write_hung_records(directory: Path, *, seed: int, fault: str | None, answer: Path) -> None:
    """Write the records of a job whose fault can be told, and its answer.

    Args:
        directory: Where to, an empty or a new one.
        seed: Seed of the job.
        fault: One of `FAULTS`, None for any.
        answer: Where the fault and the ranks to be named are written, outside of the directory.

    Raises:
        FileExistsError: The directory contains files.
        ValueError: No such job has the fault.
    """
    if fault is not None and fault not in FAULTS:
        raise ValueError(f"with all records the faults are {', '.join(FAULTS)}")
    directory.mkdir(parents=True, exist_ok=True)
    present = sorted(directory.iterdir())
    if present:
        raise FileExistsError(f"{directory} holds {present[0].name}: choose a new directory")
    job = mixed_job(seed, fault)
    write_mixed(directory, job)
    write_window(directory, job)
    slow = job.kept.slow if job.kept.window == "same" and job.kept.slow >= 0 else None
    truth = {"fault": job.plan.fault, "ranks": list(job.truth), "world_size": job.plan.world,
             "hung": job.outcome.is_hung, "slow_in_trace": slow}  # fmt: skip
    answer.write_text(json.dumps(truth, indent=2) + "\n", encoding="ascii")


def write_mixed(directory: Path, job: MixedJob) -> list[Path]:
    """Write the records of a job, and return their paths.

    Dumps lie in ``dumps``, the others in ``ras``, ``inspector`` and ``logs``, as scripts of
    clusters put them.
    """
    texts: dict[str, str] = {
        f"dumps/_dump_{rank}.json": json.dumps(job.outcome.dumps[rank], sort_keys=True)
        for rank in job.kept.dumps
    }
    for number in range(job.kept.reports):
        report = ras_report(job, minute=number)
        texts[f"ras/ras_{number}.json"] = json.dumps(report, indent=2)
    if job.kept.inspector:
        for rank in range(job.plan.world):
            name = f"{_host(rank)}-pid{_pid(rank)}.log"
            texts[f"inspector/{name}"] = "".join(f"{one}\n" for one in inspector_lines(job, rank))
    if job.kept.logs:
        texts["logs/train.log"] = "".join(f"{one}\n" for one in watchdog_lines(job))
    paths = []
    for name, text in texts.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
        paths.append(path)
    return paths


def window_spec(job: MixedJob) -> Spec:
    """Return the job of the traces: of as many ranks as the one that hangs, or of twice as many."""
    one, slow = job.plan, job.kept.slow
    return Spec.quiet(
        tp=one.tp,
        pp=one.pp,
        dp_shard=one.dp * (2 if job.kept.window == "other" else 1),
        gpus_per_node=_GPUS,
        steps=_WINDOW_STEPS,
        micro_batches=one.pp,
        layers=one.pp,
        seed=one.seed,
        jitter_ns=1_500,
        stragglers=(Straggler(slow, "compute", _WINDOW_DELAY_NS),) if slow >= 0 else (),
    )


def write_window(directory: Path, job: MixedJob) -> None:
    """Write traces of steps before the hang into ``kineto``, where the job leaves any.

    The rank that was slow before the hang is slow in them.
    """
    if not job.kept.window:
        return
    base_ns = START_NS - WINDOW_BEFORE_NS - (TRACE_START_NS - BASE_NS)
    folder = directory / "kineto"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in build(window_spec(job)).files.items():
        if name != CARD_NAME:
            moved = text.replace(str(BASE_NS), str(base_ns), 1)
            (folder / name).write_text(moved, encoding="ascii")


def _host(rank: int) -> str:
    return f"node-{rank // _GPUS}"


def _pid(rank: int) -> int:
    return 40_000 + rank


def _has_ended(one: Plan, rank: int) -> bool:
    """Whether the process is gone: it answers no question and prints nothing more."""
    return one.fault == "crashed" and rank == one.rank


def ras_report(job: MixedJob, *, minute: int) -> dict[str, Any]:
    """Return what ``ncclras -f json`` prints some minutes after the hang."""
    groups = job.plan.groups()
    communicators = [
        _communicator(job, number, members) for number, (_, members) in enumerate(groups.values())
    ]
    at = datetime.fromtimestamp(START_NS // 10**9 + 120 + 60 * minute, UTC)
    return {
        "nccl_version": "2.29.2",
        "timestamp": f"{at:%Y-%m-%d %H:%M:%S}",
        "communicators_count": len(communicators),
        "communicators": communicators,
        "ras": {"collection_time_sec": 0.1, "timeouts_count": 0},
    }


def _communicator(job: MixedJob, number: int, members: Sequence[int]) -> dict[str, Any]:
    name = list(job.plan.groups())[number]
    alive = [rank for rank in members if not _has_ended(job.plan, rank)]
    return {
        "hash": f"0x{0x6F3A91C27D5E0800 + number:x}",
        "size": len(members),
        "ranks_count": len(alive),
        "ranks": [
            _process(members.index(rank), rank)
            | {
                "status": {"init_state": 0, "async_error": 0, "abort_flag": False},
                "collective_counts": _launched(job.outcome.ranks[rank], name),
            }
            for rank in alive
        ],
        "missing_ranks_count": len(members) - len(alive),
        "missing_ranks": [
            _process(place, rank) | {"status": {"unresponsive": True, "considered_dead": True}}
            for place, rank in enumerate(members)
            if rank not in alive
        ],
    }


def _process(place: int, rank: int) -> dict[str, Any]:
    device = rank % _GPUS
    return {"rank": place, "host": _host(rank), "pid": _pid(rank), "cuda_dev": device,
            "nvml_dev": device}  # fmt: skip


def _launched(rank: RankState, group: str) -> dict[str, int]:
    counts = dict.fromkeys(("Broadcast", "AllGather", "ReduceScatter", "AllReduce", "SendRecv"), 0)
    for _, call in _entered(rank):
        if call.group == group:
            counts[_NCCL.get(call.name, "SendRecv")] += 1
    return counts


def _entered(rank: RankState) -> Iterator[tuple[int, Op]]:
    for place, call in enumerate(rank.calls[: len(rank.created)]):
        if call is not None:
            yield place, call


def inspector_lines(job: MixedJob, rank: int) -> Iterator[str]:
    """Yield the hour before the hang of one rank: an operation of each group every half minute."""
    dice = random.Random(job.plan.seed * 64 + rank)
    kept = job.kept
    groups = [(number, kind, members)
              for number, (kind, members) in enumerate(job.plan.groups().values())
              if kind != "mesh_pp" and rank in members]  # fmt: skip
    end_us = START_NS // 1000
    for step in range(_HISTORY_S // _INTERVAL_S):
        at_us = end_us - (_HISTORY_S - step * _INTERVAL_S) * 10**6 + dice.randrange(200_000)
        is_slow = kept.slow >= 0 and at_us > end_us - kept.slow_minutes * 60 * 10**6
        for number, kind, members in groups:
            late = 3000 if is_slow and kept.slow in members else 0
            own = late if rank == kept.slow else 0
            yield json.dumps(
                {
                    "header": {
                        "id": f"0x{0x6F3A91C27D5E08 + number:x}",
                        "comm_name": f"{kind}_{number}",
                        "rank": members.index(rank),
                        "n_ranks": len(members),
                        "nnodes": 1,
                    },
                    "metadata": {
                        "inspector_output_format_version": "v4.0",
                        "git_rev": "",
                        "rec_mechanism": "nccl_profiler_interface",
                        "dump_timestamp_us": at_us,
                        "hostname": _host(rank),
                        "pid": _pid(rank),
                    },
                    "coll_perf": {
                        "coll": "AllReduce",
                        "coll_sn": step + 1,
                        "coll_msg_size_bytes": 1 << 26,
                        "coll_exec_time_us": 980 + dice.randrange(20) + late - own,
                        "coll_timing_source": "kernel_gpu",
                        "coll_algobw_gbs": 68.0,
                        "coll_busbw_gbs": 119.0,
                    },
                },
                separators=(",", ":"),
            )


def watchdog_lines(job: MixedJob) -> Iterator[str]:
    """Yield what all ranks print that still run: who gave up in which group, and its counters."""
    yield from (f"iteration {step} / 100 | elapsed time per iteration (ms): 2100 |"
                for step in (10, 20))  # fmt: skip
    groups = job.plan.groups()
    names = list(groups)
    for rank in job.outcome.ranks:
        if _has_ended(job.plan, rank.rank) or not job.outcome.is_hung:
            continue
        head = _HEAD.format(rank=rank.rank, second=21 + rank.rank % 30)
        stuck = rank.head
        for name, numbers in _counters(rank).items():
            kind, members = groups[name]
            place = members.index(rank.rank)
            of = f"[PG ID {names.index(name)} PG GUID {name}({kind}) Rank {place}]"
            told = f"last enqueued work: {numbers[0]}, last completed work: {numbers[1]}"
            call = None if stuck is None else rank.calls[stuck]
            if call is None or call.group != name:
                yield (
                    f"{head}{of} Received a dump signal due to a collective timeout from  rank 0 "
                    f"and we will try our best to dump the debug info. {told[:1].upper()}{told[1:]}"
                    "."
                )
                continue
            seq = rank.number[stuck or 0]
            operation = call.name.upper().replace("ALL_", "ALL")
            yield (
                f"{head}[Rank {place}] Watchdog caught collective operation timeout: WorkNCCL("
                f"SeqNum={seq}, OpType={operation}, NumelIn={call.size}, NumelOut={call.size}, "
                "Timeout(ms)=600000) ran for 600081 milliseconds before timing out."
            )
            yield (
                f"{head}{of}  failure detected by watchdog at work sequence id: {seq} PG status: "
                f"{told}"
            )


def _counters(rank: RankState) -> Mapping[str, tuple[int, int]]:
    """Return last enqueued and last completed number by group; -1: none."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (-1, -1))
    for place, call in _entered(rank):
        number = rank.number[place]
        done = number if place in rank.ended else found[call.group][1]
        found[call.group] = (number, done)
    return found
