"""Who did not arrive, from dumps of jobs that hang in a known way."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ccltui.demo.hung_job import START_NS, Plan, plan, run
from ccltui.metrics.hangs.find_hang import hang_of
from ccltui.metrics.hangs.flight_hang import flight_hang
from ccltui.metrics.hangs.hang import Hang
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import TraceError
from ccltui.parsers.flight_recorder import is_dump
from ccltui.parsers.flight_recorder.read_dump import dump_of

SEEDS = range(7000, 7100)
"""None of them was looked at while rules were written."""


def judged(dumps: dict[int, Any], modified: dict[int, int] | None = None) -> Hang:
    when = modified or {}
    found = flight_hang(
        [
            dump_of(value, shown=f"rank_{rank}", named=rank, modified_ns=when.get(rank, 0))
            for rank, value in dumps.items()
        ]
    )
    assert found is not None
    return found


def test_synthetic_hangs_of_seeds_that_nobody_looked_at() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        job = plan(seed)
        outcome = run(job)
        found = judged(outcome.dumps)
        truth = {str(rank) for rank in job.truth(is_hung=outcome.is_hung)}
        named = set(found.ranks)
        # of two ranks that stop, all may wait for one alone
        is_right = named == truth or (job.fault == "two_late" and named and named < truth)
        counts["right" if is_right else "wrong" if named else "nobody"] += 1
        assert is_right or not named, f"seed {seed}, {job.fault}: {found.text}"

    assert counts["wrong"] == 0
    assert counts["right"] >= 0.98 * len(SEEDS)


def one_of(fault: str, **fixed: Any) -> tuple[Plan, dict[int, Any]]:
    """Return the first job of a fault, with given values of its plan, and its dumps."""
    for seed in range(8000, 40_000):
        job = plan(seed)
        wanted = {"only_active": False, "ring": 2000} | fixed
        if job.fault == fault and all(getattr(job, key) == value for key, value in wanted.items()):
            return job, run(job).dumps
    raise AssertionError(f"no seed has {fault} with {fixed}")


def test_every_rank_stands_somewhere_once_those_named_first() -> None:
    job, dumps = one_of("late", backend="nccl", version="2.10")

    found = judged(dumps)

    rows = found.rows()
    assert sorted(int(rank) for one in rows for rank in one.ranks) == list(range(job.world))
    assert rows[0].is_named
    assert rows[0].ranks == found.ranks
    waiting = [one for one in rows if one.does == "waits in"]
    assert {rank for one in waiting for rank in one.ranks} == set(found.waiting)
    assert all(one.call and one.waits_for for one in waiting)


def test_a_record_without_calls_says_who_waits_for_whom() -> None:
    found = Hang("no_dump", "Rank 3 is gone.", ranks=("3",), waiting=("0", "1"), group="dp",
                 operation="all-reduce", sequence=1234)  # fmt: skip

    named, waiting = found.rows()

    assert (named.ranks, named.does, named.is_named) == (("3",), "left no dump", True)
    assert (waiting.does, waiting.call, waiting.waits_for) == (
        "waits in", "all-reduce 1,234 of dp", ("3",)
    )  # fmt: skip
    assert Hang("abstained", "Nobody knows.").rows()[0].does == "not known"


def test_a_rank_that_stops_and_its_last_call() -> None:
    job, dumps = one_of("late", backend="nccl", version="2.10")

    found = judged(dumps)

    assert (found.kind, found.ranks, found.sure) == ("did_not_arrive", (str(job.rank),), "high")
    assert found.text.startswith(f"Rank {job.rank} never entered {found.operation}")
    assert "; its last call is " in found.text
    assert "(train.py:40)" in found.text
    assert f"rank {job.rank}" in found.do


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_the_whole_way_from_files(tmp_path: Path, form: str) -> None:
    job, dumps = one_of("late", backend="nccl", version="2.10")
    for rank, value in dumps.items():
        data = pickle.dumps(value, 2) if form == "pickle" else json.dumps(value).encode()
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(data)

    found = hang_of(discover(tmp_path))

    assert found is not None
    assert (found.ranks, found.record, len(found.files)) == ((str(job.rank),), "flight recorder",
                                                             job.world)  # fmt: skip


def test_a_crashed_rank_has_no_dump() -> None:
    job, dumps = one_of("crashed", backend="nccl")

    found = judged(dumps)

    assert (found.kind, found.ranks) == ("no_dump", (str(job.rank),))
    assert found.sure == "medium"
    assert f"No dump of rank {job.rank}, of {job.world} ranks." in found.more


def test_the_highest_rank_of_gloo_is_missed_though_nobody_states_it() -> None:
    job, dumps = one_of("crashed", backend="gloo", tp=2, dp=2, rank=3)

    found = judged(dumps)

    assert (found.kind, found.ranks, found.sure) == ("no_dump", ("3",), "low")
    assert "of at least 4 ranks" in " ".join(found.more)
    assert job.world == 4


def test_a_lost_file_does_not_shift_the_blame() -> None:
    job, dumps = one_of("lost_file", backend="nccl")

    found = judged(dumps)

    assert found.ranks == (str(job.rank),)
    assert found.sure != "high"
    assert f"No dump of rank {job.other}, of {job.world} ranks." in found.more


def test_a_call_that_differs_names_both_lines() -> None:
    job, dumps = one_of("operation", backend="nccl", tp=4)

    found = judged(dumps)

    assert (found.kind, found.ranks) == ("mismatch", (str(job.rank),))
    assert "called broadcast where" in found.text
    assert "from `share` (train.py:40)" in found.text


def test_other_types_of_one_size_do_not_hang() -> None:
    job, dumps = one_of("type", backend="nccl", tp=4)

    found = judged(dumps)

    assert (found.kind, found.ranks, found.waiting) == ("mismatch", (str(job.rank),), ())
    assert "Half" in found.text
    assert found.text.endswith("nothing hangs: the job goes on with wrong numbers.")
    assert not found.is_hung


def test_nobody_is_named_where_all_arrived() -> None:
    _, dumps = one_of("network", backend="nccl")

    found = judged(dumps)

    assert (found.kind, found.ranks, found.sure) == ("all_arrived", (), "low")
    assert "nccl-tests" in found.do


def test_dumps_of_a_job_that_ran_to_its_end() -> None:
    _, dumps = one_of("none", backend="nccl")

    assert judged(dumps).kind == "nothing"


def test_dumps_of_different_moments_are_less_sure() -> None:
    _, dumps = one_of("late", backend="nccl", version="2.10")
    first = min(dumps)

    found = judged(dumps, {first: 3600 * 10**9})

    assert found.sure == "medium"
    assert found.more[-1].startswith("The files were written more than a minute apart")


def test_too_few_dumps_name_nobody() -> None:
    job, dumps = one_of("late", backend="nccl", tp=4, dp=2)
    waiting = next(rank for rank in dumps if rank != job.rank)

    found = judged({waiting: dumps[waiting]})

    assert (found.kind, found.ranks) == ("abstained", ())
    assert found.text.startswith("Dumps of 1 of 8 ranks do not tell who did not arrive")


def test_a_file_that_is_cut_off_does_not_make_its_rank_the_culprit() -> None:
    job, dumps = one_of("late", backend="nccl", version="2.4")
    victim = next(rank for rank in dumps if rank != job.rank)
    whole = pickle.dumps(dumps[victim], 2)
    from ccltui.parsers.text.plain_pickle import read_plain_pickle

    read = read_plain_pickle(whole[: len(whole) // 2], shown="cut")
    cut = dump_of(read.value, shown="cut", named=victim, notes=read.notes)
    others = [dump_of(one, shown="x", named=r) for r, one in dumps.items() if r != victim]

    found = flight_hang([*others, cut])

    assert found is not None
    assert str(job.rank) in found.ranks
    assert "Not used: cut: the file ends inside its pickle" in " ".join(found.more)


def test_the_newer_of_two_files_of_a_rank_counts() -> None:
    job, dumps = one_of("late", backend="nccl", version="2.10")
    rank = next(one for one in dumps if one != job.rank)
    stale = dumps[rank] | {"entries": dumps[rank]["entries"][:3], "pg_status": {}}
    made = [dump_of(value, shown=f"new/{r}", named=r, modified_ns=9) for r, value in dumps.items()]

    found = flight_hang([dump_of(stale, shown="old", named=rank, modified_ns=1), *made])

    assert found is not None
    assert found.ranks == (str(job.rank),)
    assert f"Not used: old: new/{rank} is of the same rank, newer." in found.more


def entry(seq: int, name: str, **changes: Any) -> dict[str, Any]:
    return {
        "record_id": seq,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "profiling_name": f"nccl:{name}",
        "time_created_ns": START_NS + seq,
        "input_sizes": [[8]],
        "input_dtypes": ["Float"],
        "output_sizes": [[8]],
        "output_dtypes": ["Float"],
        "state": "completed",
        "retired": True,
        "is_p2p": False,
        **changes,
    }


def job_of(by_rank: dict[int, list[dict[str, Any]]], version: str = "2.10") -> dict[int, Any]:
    ranks = str(sorted(by_rank))
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}}
    return {
        rank: {"version": version, "pg_config": config, "entries": entries}
        for rank, entries in by_rank.items()
    }


UNEVEN = [
    ("all_to_all", {"input_sizes": [[3]]}, {"output_sizes": [[5]]}),
    ("all_gather", {"input_sizes": [[3]]}, {"input_sizes": [[5]]}),
    ("reduce_scatter", {"output_sizes": [[3]]}, {"output_sizes": [[5]]}),
    ("gather", {"output_sizes": []}, {"output_sizes": [[8]] * 3}),
    ("gather", {"output_sizes": [], "output_dtypes": []}, {}),
    ("scatter", {"input_sizes": [], "input_dtypes": []}, {}),
    ("all_reduce", {"input_sizes": [[2, 4]]}, {"input_sizes": [[4, 2]]}),
    ("allreduce_coalesced", {"input_sizes": [[3], [4]]}, {"input_sizes": [[7]]}),
]


@pytest.mark.parametrize(("name", "one", "other"), UNEVEN)
def test_sizes_that_may_differ_are_no_mismatch(
    name: str, one: dict[str, Any], other: dict[str, Any]
) -> None:
    dumps = job_of({rank: [entry(1, name, **(one if rank else other))] for rank in range(3)})

    assert judged(dumps).kind == "nothing"


def test_operations_of_a_coalesced_group_end_with_its_closing_entry() -> None:
    pending = {"state": "scheduled", "retired": False}
    batch = [
        entry(1, "all_reduce"),
        entry(2, "all_gather", **pending),
        entry(2, "all_gather", **pending),
        entry(2, "ALLGATHER_coalesced", input_sizes=[], output_sizes=[]),
    ]

    assert judged(job_of({0: batch, 1: batch})).kind == "nothing"
    hung = [*batch[:3], batch[3] | pending]
    found = judged(job_of({0: hung, 1: batch[:1], 2: hung}))
    assert (found.kind, found.ranks) == ("did_not_arrive", ("1",))


def test_a_rank_that_is_one_call_ahead_left_one_out() -> None:
    sizes = [5, 6, 7, 8, 9]

    def calls(kept: list[int]) -> list[dict[str, Any]]:
        return [
            entry(
                at + 1,
                "all_reduce",
                input_sizes=[[size]],
                output_sizes=[[size]],
                state="scheduled" if at else "completed",
                retired=not at,
            )
            for at, size in enumerate(kept)
        ]

    found = judged(job_of({0: calls(sizes), 1: calls(sizes), 2: calls([5, 7, 8, 9])}))

    assert found.ranks == ("2",)
    assert found.text.startswith(
        "Rank 2 left out all-reduce of 6 Float, number 2 of default_pg, and is one call ahead since"
    )


def test_two_roots_by_weak_evidence_alone_are_not_named() -> None:
    def sent(rank: int, peer: int) -> dict[str, Any]:
        name = f"send {rank}->{peer}"
        return entry(9, name, record_id=5, is_p2p=True, state="scheduled", retired=False)

    idle = [entry(1, "all_reduce", record_id=5)]
    found = judged(job_of({0: [sent(0, 2)], 1: [sent(1, 3)], 2: idle, 3: idle}))

    assert (found.kind, found.ranks) == ("abstained", ())
    assert "ranks 2 and 3" in found.text


def test_a_rank_that_stops_after_a_call_that_all_entered_is_named() -> None:
    pending = {"state": "scheduled", "retired": False}
    ahead = [entry(1, "all_reduce"), entry(2, "all_reduce", **pending),
             entry(3, "all_reduce", **pending)]  # fmt: skip

    found = judged(job_of({0: ahead, 1: ahead[:2], 2: ahead}))

    assert (found.kind, found.ranks, found.sure) == ("did_not_arrive", ("1",), "medium")
    assert found.sequence == 3


def test_a_counter_that_contradicts_the_entries_freezes_nobody() -> None:
    status = {"0": {"last_enqueued_collective": 9, "last_completed_collective": 9}}
    hung = [entry(1, "all_reduce"), entry(2, "all_reduce", state="scheduled", retired=False)]
    dumps = job_of({0: hung, 1: hung, 2: hung})

    found = judged({rank: one | {"pg_status": status} for rank, one in dumps.items()})

    assert (found.kind, found.ranks) == ("all_arrived", ())


def test_ranks_of_another_job_are_left_out() -> None:
    _, dumps = one_of("none", backend="nccl", tp=4, dp=2)
    other = job_of({rank: [entry(1, "all_reduce")] for rank in range(2)})
    made = [dump_of(value, shown=f"a/{rank}", named=rank) for rank, value in dumps.items()]
    made += [dump_of(value, shown=f"b/{rank}", named=rank) for rank, value in other.items()]

    found = flight_hang(made)

    assert found is not None
    assert found.kind == "nothing"
    assert "2 dumps are of another job by the ranks of its groups." in found.more


ODD: list[Any] = [
    *(None, True, -1, 0, 3, 1 << 62, "", "x", [], {}, [[1]], "[0, 1]", "[0]", "2.9", 0.5),
    *("nccl:send 0->1", "nccl:recv 7<-0", "nccl:coalesced", ("1", "mesh_tp"), ("", "")),
]


def changed(value: Any, dice: random.Random) -> None:
    """Replace or remove one value somewhere inside."""
    while value:
        key = dice.choice(list(value) if isinstance(value, dict) else range(len(value)))
        inner = value[key]
        if isinstance(inner, dict | list) and inner and dice.random() < 0.65:
            value = inner
            continue
        if dice.random() < 0.3:
            del value[key]
        else:
            value[key] = dice.choice(ODD)
        return


def test_dumps_with_changed_values_are_judged_or_refused() -> None:
    for seed in range(75):
        dice = random.Random(seed)
        dumps = json.loads(json.dumps(run(plan(seed)).dumps))
        read = []
        for rank, value in dumps.items():
            for _ in range(dice.choice((0, 1, 5, 20))):
                changed(value, dice)
            if is_dump(value):
                with contextlib.suppress(TraceError):
                    read.append(dump_of(value, shown=f"rank_{rank}", named=int(rank)))

        found = flight_hang(read)

        assert read == [] or (found is not None and found.text)
