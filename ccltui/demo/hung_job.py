"""Jobs that hang in a known way, run on a model of streams and hosts, and the dumps they leave.

Every rank runs the same program of collectives over its groups, until a fault at one rank. A host
enqueues up to some calls ahead of its device; a device works on its calls in order, and a call ends
when it is the next one on all members. What is left when nothing moves is what the dumps hold.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

FAULTS: Final = (
    *("late", "crashed", "lost_file", "operation", "size", "type", "order", "left_out"),
    *("network", "none", "two_late", "slow"),
)
"""A rank stops; it ends and leaves no dump; it stops and the dump of another is lost; it calls
another operation, size or type; it enters two groups in the other order; it leaves a call out; a
link is dead; nothing is wrong; two ranks stop; a rank is slow."""
_OF_TWO: Final = ("two_late", "deadlock")
_OURS: Final = re.compile(r"_dump_\d+\.json")
_RING: Final = 2000
START_NS: Final = 1_780_000_000_000_000_000
_FILE: Final = "/job/train.py"
_FORMS: Final = (
    ("nccl", "2.1"),
    ("nccl", "2.4"),
    ("nccl", "2.9"),
    ("nccl", "2.10"),
    ("gloo", "2.10"),
)


class Op(NamedTuple):
    """One call of a program: in a group, of a kind; ``peer`` is a rank in sends and receives."""

    group: str
    name: str
    size: int
    where: str
    dtype: str = "BFloat16"
    peer: int = -1


class Plan(Struct, frozen=True):
    """A job and its fault. ``rank`` is at fault from call ``at`` of its program on."""

    seed: int
    fault: str
    rank: int
    other: int
    at: int
    tp: int
    dp: int
    pp: int
    steps: int
    ahead: int
    backend: str
    version: str
    ring: int
    only_active: bool
    timing: bool

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self.tp * self.dp * self.pp

    def groups(self) -> Mapping[str, tuple[str, tuple[int, ...]]]:
        """Return description and members by name."""
        tp, dp = self.tp, self.dp
        place = [(r % tp, r // tp % dp, r // (tp * dp)) for r in range(self.world)]
        everyone = tuple(range(self.world))
        found: dict[str, tuple[str, tuple[int, ...]]] = {"0": ("default_pg", everyone)}
        for kind, axes in (("mesh_tp", (1, 2)), ("mesh_dp", (0, 2)), ("mesh_pp", (0, 1))):
            members = defaultdict(list)
            for rank, one in enumerate(place):
                members[tuple(one[axis] for axis in axes)].append(rank)
            for ranks in members.values():
                if len(ranks) > 1:
                    found[str(len(found))] = (kind, tuple(ranks))
        return found

    def truth(self, *, is_hung: bool) -> tuple[int, ...]:
        """Return the ranks that are to be named; () for nobody.

        An order that differs need not hang. Without times of the device NCCL's calls do not tell
        who is late.
        """
        if self.fault == "slow":
            is_timed = self.timing and not self.only_active
            return (self.rank,) if self.backend == "gloo" or is_timed else ()
        if self.fault == "type" and self.only_active:
            return ()  # its call is complete, and left out of the dumps
        in_order = self.fault in ("order", "deadlock") and not is_hung
        if self.fault in ("network", "none") or in_order:
            return ()
        if self.fault in _OF_TWO:
            return tuple(sorted({self.rank, self.other}))
        return (self.rank,)


def plan(seed: int) -> Plan:
    """Return the job of a seed."""
    dice = random.Random(seed)
    tp, dp, pp = dice.choice([(4, 2, 1), (2, 2, 2), (2, 4, 1), (4, 4, 1), (2, 2, 4), (8, 2, 1)])
    backend, version = dice.choice(_FORMS)
    if backend == "gloo":
        pp = 1  # sends and receives of gloo are not recorded
    fault = dice.choice(FAULTS)
    world = tp * dp * pp
    rank = dice.randrange(world)
    steps = dice.randint(3, 6)
    one = Plan(
        seed=seed,
        fault=fault,
        rank=rank,
        other=(rank + dice.randrange(1, world)) % world,
        at=0,
        tp=tp,
        dp=dp,
        pp=pp,
        steps=steps,
        ahead=1 if backend == "gloo" else dice.choice([1, 3, 8]),
        backend=backend,
        version=version,
        ring=dice.choice([_RING, _RING, _RING, 24]),
        only_active=version == "2.9" and dice.random() < 0.3,
        timing=backend == "nccl" and dice.random() < 0.3,
    )
    length = min(len(list(program(one, each))) for each in (rank, one.other))
    return replace(one, at=dice.randrange(length // 2, length - 2))


def program(one: Plan, rank: int) -> Iterator[Op]:
    """Yield the calls of a rank without its fault."""
    mine = {kind: name for name, (kind, members) in one.groups().items() if rank in members}
    stage = rank // (one.tp * one.dp)
    for _ in range(one.steps):
        if stage > 0:
            yield Op(mine["mesh_pp"], "recv", 2048, "receive", peer=rank - one.tp * one.dp)
        for layer in range(2):
            yield Op(mine["mesh_tp"], "_all_gather_base", 512 + layer, "attention")
            yield Op(mine["mesh_tp"], "_reduce_scatter_base", 512 + layer, "mlp")
        if stage < one.pp - 1:
            yield Op(mine["mesh_pp"], "send", 2048, "send", peer=rank + one.tp * one.dp)
        yield Op(mine["mesh_dp"], "all_reduce", 4096, "sync_gradients")
        yield Op(mine["mesh_dp"], "all_reduce", 1024, "sync_gradients")
        yield Op("0", "all_reduce", 1, "log_loss", "Float")


def with_fault(one: Plan, rank: int) -> list[Op | None]:
    """Return the calls of a rank with its fault; None is where its host stops."""
    calls: list[Op | None] = list(program(one, rank))
    at = one.at
    is_at_fault = rank == one.rank or (one.fault in _OF_TWO and rank == one.other)
    if not is_at_fault:
        return calls
    if one.fault in ("late", "crashed", "lost_file", "two_late", "host_loop"):
        calls[at:] = [None]
    elif one.fault in ("operation", "size", "type", "left_out", "order", "deadlock"):
        _wrong(calls, one)
    return calls


def _wrong(calls: list[Op | None], one: Plan) -> None:
    """Change the first call from ``at`` on that the fault can be at."""
    for place in range(one.at, len(calls) - 1):
        call, after = calls[place], calls[place + 1]
        if call is None or after is None or call.peer >= 0 or after.peer >= 0:
            continue
        if one.fault == "operation":
            calls[place] = call._replace(name="broadcast", where="share")
        elif one.fault == "size":
            calls[place] = call._replace(size=call.size + 8)
        elif one.fault == "type":
            calls[place] = call._replace(dtype="Half")
        elif one.fault == "left_out":
            del calls[place]
        elif call.group != after.group and (
            one.fault == "order" or "0" not in (call.group, after.group)
        ):
            calls[place], calls[place + 1] = after, call
        else:
            continue
        return


def write_hung(directory: Path, *, seed: int, fault: str | None, answer: Path) -> None:
    """Write the dumps of a job whose fault can be told, in JSON, and its answer.

    Dumps of an earlier job in the directory are replaced.

    Args:
        directory: Where to; created if necessary.
        seed: Seed of the job.
        fault: One of `FAULTS`, None for any.
        answer: Where the fault and the ranks to be named are written, outside of the directory.

    Raises:
        FileExistsError: The directory contains other files.
    """
    directory.mkdir(parents=True, exist_ok=True)
    present = sorted(directory.iterdir())
    foreign = [path.name for path in present if not _OURS.fullmatch(path.name)]
    if foreign:
        raise FileExistsError(f"{directory} holds {foreign[0]}: choose an empty or a new directory")
    for path in present:
        path.unlink()
    job, outcome = _told(seed, fault)
    for rank, dump in outcome.dumps.items():
        text = json.dumps(dump, sort_keys=True, separators=(",", ":"))
        (directory / f"_dump_{rank}.json").write_text(text, encoding="ascii")
    ranks = list(job.truth(is_hung=outcome.is_hung))
    truth = {"fault": job.fault, "ranks": ranks, "world_size": job.world, "hung": outcome.is_hung}
    answer.write_text(json.dumps(truth, indent=2) + "\n", encoding="ascii")


def _told(seed: int, fault: str | None) -> tuple[Plan, Outcome]:
    """Return the first job of a seed whose dumps tell its fault."""
    for number in itertools.count(seed * _SEEDS_APART):
        job = plan(number)
        is_meant = fault is None or job.fault == fault
        if is_meant and not job.only_active and job.ring == _RING:
            outcome = run(job)
            names_nobody = job.fault in ("network", "none")
            if names_nobody or job.truth(is_hung=outcome.is_hung):
                return job, outcome
    raise AssertionError("seeds do not end")


_SEEDS_APART: Final = 10_000
"""Jobs that belong to one seed: of these one has the fault and can be told."""


class RankState(Struct):
    """The state of one rank while the job runs, and when nothing moves any more."""

    rank: int
    calls: list[Op | None]
    created: list[int] = field(default_factory=list)  # times of calls that are enqueued
    ended: dict[int, int] = field(default_factory=dict)  # of calls that are complete
    now: int = START_NS
    number: dict[int, int] = field(default_factory=dict)  # of a call in its group
    counts: dict[tuple[str, bool], int] = field(default_factory=dict)

    @property
    def head(self) -> int | None:
        """The call that its device is at; None where it has none."""
        return len(self.ended) if len(self.ended) < len(self.created) else None

    def enqueue(self, ahead: int, dice: random.Random, late_ns: int) -> bool:
        """Enqueue as far as the host goes; return whether it did."""
        before = len(self.created)
        while len(self.created) < len(self.calls) and len(self.created) - len(self.ended) < ahead:
            place = len(self.created)
            call = self.calls[place]
            if call is None:
                break
            self.now += dice.randint(1_000, 60_000) + late_ns
            key = (call.group, call.peer >= 0)
            self.counts[key] = self.number[place] = self.counts.get(key, 0) + 1
            self.created.append(self.now)
        return len(self.created) > before


class Outcome(NamedTuple):
    """The dump of each rank that left one, whether a rank did not end, and all ranks."""

    dumps: dict[int, dict[str, Any]]
    is_hung: bool
    ranks: list[RankState]


def run(one: Plan) -> Outcome:
    """Run a job until nothing moves."""
    dice = random.Random(one.seed + 1)
    groups = one.groups()
    ranks = [RankState(rank, with_fault(one, rank)) for rank in range(one.world)]
    broken = _broken(one, ranks)
    moved = True
    while moved:
        moved = False
        for rank in ranks:
            late = 20_000_000 if one.fault == "slow" and rank.rank == one.rank else 0
            moved |= rank.enqueue(one.ahead, dice, late)
        for rank in ranks:
            moved |= _end(ranks, rank, groups, broken)
    left = [rank for rank in ranks if not _has_no_dump(one, rank.rank)]
    is_hung = any(len(rank.ended) < len(rank.calls) for rank in ranks)
    return Outcome({rank.rank: _dump(one, rank, groups) for rank in left}, is_hung, ranks)


def _has_no_dump(one: Plan, rank: int) -> bool:
    if one.fault == "crashed":
        return rank == one.rank
    return one.fault == "lost_file" and rank == one.other


def _broken(one: Plan, ranks: list[RankState]) -> tuple[str, int] | None:
    """Return the call, by group and number, that never ends although all entered it."""
    if one.fault != "network":
        return None
    counts: dict[str, int] = defaultdict(int)
    for call in ranks[one.rank].calls[: one.at + 1]:
        if call is not None and call.peer < 0:
            counts[call.group] += 1
            last = call.group
    return last, counts[last]


def _end(
    ranks: list[RankState],
    rank: RankState,
    groups: Mapping[str, tuple[str, tuple[int, ...]]],
    broken: tuple[str, int] | None,
) -> bool:
    """End the call at the head of a rank where all its members are at it."""
    head = rank.head
    call = None if head is None else rank.calls[head]
    if head is None or call is None:
        return False
    others = [ranks[one] for one in (groups[call.group][1] if call.peer < 0 else (call.peer,))]
    members = others if call.peer < 0 else [rank, *others]
    for other in members:
        place = other.head
        its = None if place is None else other.calls[place]
        if place is None or its is None or its.group != call.group:
            return False
        if other is not rank and not _fits(rank, head, other, place):
            return False
    if call.peer < 0 and (call.group, rank.number[head]) == broken:
        return False
    last = max(one.created[len(one.ended)] for one in members)
    for other in members:
        other.ended[len(other.ended)] = last + 400_000
        if len(other.created) == len(other.ended):  # its host waited for it
            other.now = max(other.now, last + 400_000)
    return True


def _fits(rank: RankState, head: int, other: RankState, place: int) -> bool:
    """Whether two calls of one group are the same; other types of one size end all the same."""
    call, its = rank.calls[head], other.calls[place]
    assert call is not None
    assert its is not None
    if call.peer >= 0:
        return its.peer == rank.rank and its.name != call.name
    is_same = (its.name, its.size) == (call.name, call.size)
    return is_same and its.peer < 0 and other.number[place] == rank.number[head]


def _dump(
    one: Plan, rank: RankState, groups: Mapping[str, tuple[str, tuple[int, ...]]]
) -> dict[str, Any]:
    mine = {name: group for name, group in groups.items() if rank.rank in group[1]}
    ids = {name: number for number, name in enumerate(mine)}
    entries = [_entry(one, rank, place, mine, ids) for place in range(len(rank.created))]
    kept = entries[-one.ring :]
    if one.only_active:
        kept = [entry for entry in kept if entry["state"] != "completed"]
    config = {
        name: {"name": name, "desc": kind, "ranks": str(list(members))}
        for name, (kind, members) in mine.items()
    }
    if one.backend == "gloo":
        config = {"": {"name": "", "desc": "", "ranks": "[]"}}
    dump: dict[str, Any] = {"version": one.version, "pg_config": config}
    if one.version != "2.1":
        dump["pg_status"] = {str(ids[name]): _status(rank, name) for name in mine}
    return dump | {"entries": kept}


def _status(rank: RankState, name: str) -> dict[str, int]:
    """Return the counters of a group: those of the last call of either kind."""
    entered = enumerate(rank.calls[: len(rank.created)])
    places = [place for place, call in entered if call is not None and call.group == name]
    done = [place for place in places if place in rank.ended]
    return {
        "last_enqueued_collective": rank.number[places[-1]] if places else -1,
        "last_started_collective": -1,
        "last_completed_collective": rank.number[done[-1]] if done else -1,
    }


def _entry(
    one: Plan,
    rank: RankState,
    place: int,
    groups: Mapping[str, tuple[str, tuple[int, ...]]],
    ids: Mapping[str, int],
) -> dict[str, Any]:
    call = rank.calls[place]
    assert call is not None
    members = groups[call.group][1]
    name = f"{one.backend}:{call.name}"
    if call.peer >= 0:
        arrow = "->" if call.name == "send" else "<-"
        name += f" {members.index(rank.rank)}{arrow}{members.index(call.peer)}"
    out = call.size * {"_all_gather_base": len(members)}.get(call.name, 1)
    size = call.size * {"_reduce_scatter_base": len(members)}.get(call.name, 1)
    is_done = place in rank.ended
    is_gloo = one.backend == "gloo"
    seq = rank.number[place]
    timed = {}
    if one.timing and is_done:
        began = max(rank.created[place], rank.ended.get(place - 1, 0))
        timed = {"duration_ms": (rank.ended[place] - began) / 1e6}
    return timed | {
        "frames": [{"name": call.where, "filename": _FILE, "line": 40}],
        "record_id": place,
        "pg_id": ids[call.group],
        "process_group": (call.group, groups[call.group][0]),
        "collective_seq_id": 0 if call.peer >= 0 else seq,
        "p2p_seq_id": seq if call.peer >= 0 else 0,
        "op_id": place,
        "profiling_name": name,
        "time_created_ns": rank.created[place],
        "input_sizes": [[size]],
        "input_dtypes": [call.dtype],
        "output_sizes": [[out]],
        "output_dtypes": [call.dtype],
        "state": "completed" if is_done and not is_gloo else "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": rank.ended.get(place) if not is_gloo else None,
        "retired": is_done,
        "is_p2p": call.peer >= 0,
    }
