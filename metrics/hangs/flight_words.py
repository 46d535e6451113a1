"""Sentences about a hang, from flight recorder dumps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from ccltui.metrics.hangs.flight_job import Call, FlightJob
from ccltui.metrics.hangs.flight_mismatch import Late, Mismatch
from ccltui.metrics.hangs.flight_waits import OutOfOrder, Waits
from ccltui.metrics.hangs.hang import count_ranks, ranks_text
from ccltui.parsers.flight_recorder.dump import SCHEDULED, STARTED, Frame
from ccltui.parsers.safe_text import listed, printable

MOST_LINES: Final = 8
_MOST_WAITS: Final = 6
_RECORD: Final = (
    "TORCH_FR_BUFFER_SIZE=2000 (TORCH_NCCL_TRACE_BUFFER_SIZE before PyTorch 2.8) and "
    "TORCH_NCCL_DUMP_ON_TIMEOUT=1"
)
ALL_DUMPS: Final = (
    f"Collect the dumps of all ranks of one time-out: run with {_RECORD}, and where files are "
    "missing with more time to write them (TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=60000)"
)
WHOLE_RINGS: Final = (
    "Record more: dumps of all entries, not of active ones alone, and a longer ring "
    "(TORCH_FR_BUFFER_SIZE=20000; TORCH_NCCL_TRACE_BUFFER_SIZE before PyTorch 2.8)"
)
SAME_CALLS: Final = (
    "Make all ranks call the same collectives in the same order and size: look for calls under a "
    "condition that depends on the rank, and for uneven batches"
)
SAME_SIZES: Final = "Make all members call it with the same number and type of elements"
SAME_ORDER: Final = (
    "Make all ranks enter their groups in the same order: look for a call under a condition that "
    "depends on the rank"
)
AT_NETWORK: Final = (
    "Test the group without the program: nccl-tests between the same devices, with "
    "NCCL_DEBUG=INFO; then errors of links and devices (nvidia-smi -q, dmesg)"
)
AT_LOST: Final = (
    "Look at the log of {who} and of its host: an exception, a signal, memory; if it still runs, "
    "at the stack of its process (py-spy dump)"
)
AT_LATE: Final = (
    "Record a profile of this rank and of another, and compare them: ccltui explain DIR"
)
WHEN_NOTHING: Final = (
    "If the job hangs, it is blocked outside of recorded collectives (CUDA graphs, symmetric "
    "memory, another library, the host): py-spy dump of each process"
)


def labels(ranks: Collection[int]) -> tuple[str, ...]:
    """Return ranks as texts."""
    return tuple(map(str, ranks))


def named(ranks: Collection[int]) -> str:
    """Return ranks in a sentence."""
    return ranks_text(labels(sorted(ranks)))


def place(frame: Frame | None) -> str:
    """Return a frame in a sentence: "`train_step` (train.py:143)"; "" without one."""
    if frame is None:
        return ""
    file = printable(frame.file.rpartition("/")[2])
    line = f":{frame.line}" if frame.line >= 0 else ""
    return f"`{printable(frame.function)}`" + (f" ({file}{line})" if file else "")


def place_of(job: FlightJob, call: Call) -> str:
    """Return where a call was made, "" where the dump has no stack."""
    return place(job.ranks[call.rank].frame(call.row))


def main_wait(waits: Waits, ranks: Collection[int]) -> tuple[Call | None, list[int]]:
    """Return the call in which most ranks wait for some ranks, and these ranks."""
    found: dict[tuple[bool, int, int], list[Call]] = defaultdict(list)
    missing: dict[tuple[bool, int, int], set[int]] = {}
    for wait in waits.by_rank.values():
        if targets := set(wait.targets) & set(ranks):
            key = (wait.is_strong, wait.call.group, wait.call.seq)
            found[key].append(wait.call)
            missing[key] = missing.get(key, set()) | targets
    if not found:
        return None, []
    key = max(found, key=lambda one: (one[0], len(found[one])))
    return found[key][0], sorted(missing[key])


def waiting_text(job: FlightJob, waiting: Collection[int], named: Collection[int]) -> str:
    """Return "7 ranks wait for it", "all others wait for it"."""
    whom = "it" if len(named) == 1 else "them"
    if not waiting:
        return f"no dump shows who waits for {whom}"
    if len(waiting) > 1 and len(waiting) + len(named) == job.world:
        return f"all others wait for {whom}"
    return f"{count_ranks(len(waiting))} {'waits' if len(waiting) == 1 else 'wait'} for {whom}"


def stopped_text(job: FlightJob, waits: Waits, roots: Sequence[int], waiting: Sequence[int]) -> str:
    """Return who did not arrive, or is in what others finished, and how many wait."""
    call, at = main_wait(waits, roots)
    frozen = waits.frozen
    wait = waiting_text(job, waiting, {*roots, *frozen})
    if call is None:
        first, _ = next(iter(frozen.values()))
        one = len(frozen) == 1
        device = "its device or its watchdog" if one else "their devices or watchdogs"
        return (
            f"{named(list(frozen))} {'is' if one else 'are'} still in {job.short_text(first)}, "
            f"which others have finished: {device} stopped; {wait}"
        )
    is_p2p = job.is_p2p(call)
    entered = f"never entered {job.short_text(call)}"
    if is_p2p:
        is_send = job.ranks[call.rank].operation(call.row) == "send"
        here, there = ("send", "receive") if is_send else ("receive", "send")
        label = job.groups[call.group].label
        entered = f"posted no {there} for the {here} of rank {call.rank} in {label}"
    text = f"{named(at)} {entered}"
    stopped = sorted(set(frozen) - set(at))
    if stopped:
        wait = "others wait for them"  # three numbers come before it
        text += f", and {named(stopped)} stopped in a collective that others finished"
    last = job.last_call(at[0]) if len(at) == 1 and at[0] not in frozen else None
    where = "" if last is None or is_p2p else place_of(job, last)
    return f"{text}; {wait}" + (f"; its last call is in {where}" if where else "")


def stopped_facts(
    job: FlightJob, waits: Waits, ranks: Sequence[int], in_mismatch: Collection[int]
) -> Iterator[str]:
    """Yield who waits for whom, and where those stand that did not arrive."""
    yield from chain(job, waits)
    for rank, (call, done) in list(waits.frozen.items())[:MOST_LINES]:
        yield (
            f"rank {rank} is still in {job.call_text(call)}, and others of the group have finished "
            f"number {done:,}: its device or its watchdog stopped"
        )
    lost = [rank for rank in waits.roots() if rank not in job.ranks]
    if lost:
        yield f"{named(lost)} left no dump and may be missing there as well"
    if in_mismatch:
        yield f"{named(in_mismatch)} are in a call that the ranks called differently"
    for rank in ranks[:MOST_LINES]:
        if rank not in waits.frozen:
            if (last := job.last_call(rank)) is not None:
                where = place_of(job, last)
                from_where = f", from {where}" if where else ""
                yield f"the last call of rank {rank} is {job.call_text(last)}{from_where}"
            waited_in = {one.call.group for one in waits.by_rank.values() if rank in one.targets}
            yield from _standing(job, rank, waited_in)


def _standing(job: FlightJob, rank: int, waited_in: Collection[int]) -> Iterator[str]:
    """Yield what a rank did last in its groups, and that it stands in none of them."""
    calls = job.ranks[rank]
    parts = [
        f"{calls.enqueued[index]:,} of {job.group_text(index)}"
        for index in sorted(calls.enqueued, key=lambda one: (one not in waited_in, one))
        if calls.enqueued[index] > 0
    ]
    if parts:
        done = all(calls.completed.get(index, -1) >= number
                   for index, number in calls.enqueued.items() if number > 0)  # fmt: skip
        is_known = all(index in calls.completed for index in calls.enqueued)
        state = ", all complete" if done and is_known else ""
        yield f"rank {rank} has entered {listed(parts, 4)}{state}"
    if not calls.pending:
        held = not calls.dump.has_stacks and any(
            one.dump.has_stacks for one in job.ranks.values() if len(one.dump.columns)
        )
        why = (
            ": its dump has no stacks while others have, so its interpreter's lock was held"
            if held and len(calls.dump.columns)
            else ""
        )
        yield (
            f"rank {rank} still runs and is in no recorded collective: its host stopped between "
            f"two{why}"
        )


def chain(job: FlightJob, waits: Waits) -> Iterator[str]:
    """Yield who waits for whom in what, groups of one kind together, most ranks first."""
    calls: dict[tuple[str, str], list[Call]] = defaultdict(list)
    targets: dict[tuple[str, str], set[int]] = defaultdict(set)
    for wait in waits.by_rank.values():
        key = (_kind_of_call(job, wait.call), job.groups[wait.call.group].label)
        calls[key].append(wait.call)
        targets[key] |= set(wait.targets)
    parts = []
    for key, held in sorted(calls.items(), key=lambda one: (-len(one[1]), one[0])):
        groups = {one.group for one in held}
        where = job.group_text(held[0].group) if len(groups) == 1 else (
            f"{key[1]} ({len(groups)} groups)"
        )  # fmt: skip
        verb = "waits" if len(held) == 1 else "wait"
        text = f"{named([one.rank for one in held])} {verb} for {named(targets[key])} in "
        text += f"{key[0]} of {where}"
        place_there = place_of(job, held[0])
        parts.append(text + (f", from {place_there}" if place_there else ""))
    if parts:
        more = len(parts) - _MOST_WAITS
        yield "; ".join(parts[:_MOST_WAITS]) + (f"; and {more} more waits" if more > 0 else "")


def _kind_of_call(job: FlightJob, call: Call) -> str:
    """Return "all-reduce 9", "a send"."""
    if job.is_p2p(call):
        return "a send" if job.ranks[call.rank].operation(call.row) == "send" else "a receive"
    return job.call_text(call).partition(" of ")[0]


def at_ranks(job: FlightJob, ranks: Sequence[int], *, is_frozen: bool) -> str:
    """Return what to do about ranks that did not arrive."""
    text = (
        f"Look at {named(ranks)}: the log after the last call, and the stack of the process "
        "(py-spy dump)"
    )
    if is_frozen:
        text += "; errors of its device: Xid and ECC in dmesg and nvidia-smi -q"
    if not any(one.dump.has_stacks for one in job.ranks.values()):
        text += (
            ". The dumps hold no stacks: with TORCH_INCLUDE_STACK_TRACE=1 the next ones name the "
            "line of each call"
        )
    return text


def no_dump_text(job: FlightJob, roots: Sequence[int], call: Call, waiting: Sequence[int]) -> str:
    """Return that ranks without a dump are waited for."""
    wait = waiting_text(job, waiting, roots)
    who = "it" if len(roots) == 1 else "they"
    return (
        f"{named(roots)} left no dump; {wait}, first in {job.short_text(call)}: {who} died, "
        f"{'was' if len(roots) == 1 else 'were'} killed or could not write one"
    )


def idle_facts(idle: Sequence[int]) -> Iterator[str]:
    """Yield that another rank stands in nothing, which the rank without a dump may wait for."""
    if idle:
        verb = "is" if len(idle) == 1 else "are"
        yield f"{named(idle)} {verb} in no collective: the rank without a dump may wait there"


def mismatch_text(job: FlightJob, found: Mismatch) -> str:
    """Return who called what, and whether anything hangs."""
    label = job.groups[found.group].label
    after = "" if found.is_hung else "; nothing hangs: the job goes on with wrong numbers"
    if found.expected is None:
        by_called: dict[str, list[int]] = defaultdict(list)
        first = next(iter(found.signatures.values()))
        other = next((one for one in found.signatures.values() if one != first), first)
        for rank, one in found.signatures.items():
            by_called[found.words(one, other if one == first else first)].append(rank)
        said = "; ".join(f"{named(ranks)} {what}" for what, ranks in by_called.items())
        where = f"number {found.seq:,} of {job.group_text(found.group)}"
        return f"ranks call different collectives as {where}, and none is the usual one: {said}" + (
            after
        )
    odd = found.odd[0]
    called = found.words(found.signatures[odd], found.expected)
    right = found.words(found.expected, found.signatures[odd])
    those = sum(one == found.expected for one in found.signatures.values())
    others = f"{'the others' if those > 1 else 'the other'} called {right}"
    if found.by == "alike":
        others = f"groups of the same kind call {right}"
    has_sizes = any(map(str.isdecimal, called + right))
    at = f" in {label}" if has_sizes else f", as number {found.seq:,} of {label}"
    where_from = place_of(job, found.calls[odd])
    text = f"{named(found.odd)} called {called} where {others}{at}"
    if found.kind == "left_out":
        text = (
            f"{named(found.odd)} left out {right}, number {found.seq:,} of {label}, and is one "
            "call ahead since"
        )
    return text + (f", from {where_from}" if where_from else "") + after


def mismatch_facts(job: FlightJob, found: Mismatch) -> Iterator[str]:
    """Yield which call it is, and where the others made it."""
    if found.expected is not None:
        those = [rank for rank, one in found.signatures.items() if one == found.expected]
        others = f"; {named(those)} made the usual call" if those else ""
        yield f"the call is number {found.seq:,} of {job.group_text(found.group)}{others}"
    calls = [call for rank, call in found.calls.items() if rank not in found.odd]
    if calls and found.odd and (where := place_of(job, calls[0])):
        yield f"the others made it from {where}"
    if found.expected is None:
        yield "as many ranks call the one as the other: neither is named"


def order_text(job: FlightJob, ring: Sequence[int], found: Sequence[OutOfOrder]) -> str:
    """Return who entered its groups in another order, where ranks wait for one another."""
    who = f"{named(ring)} wait for one another"
    if not found:
        return (
            f"{who} in groups that they enter in different order; it is not known which rank is "
            "wrong"
        )
    one = found[0]
    where = place_of(job, one.call)
    direction = "before" if one.its < one.usual else "after"
    number = one.usual if one.its < one.usual else one.its
    others = "the others the other way round" if one.witnesses else "unlike in its steps before"
    text = (
        f"{named([each.rank for each in found])} entered {job.short_text(one.call)} {direction} "
        f"number {number:,} of {one.other}, {others}"
    )
    return text + (f"; the call comes from {where}" if where else "")


def order_facts(ring: Sequence[int], found: Sequence[OutOfOrder]) -> Iterator[str]:
    """Yield who waits for one another, and how far the others were in the other group."""
    if found:
        yield f"{named(ring)} wait for one another"
    for one in found[:MOST_LINES]:
        if one.witnesses:
            yield (
                f"when rank {one.rank} made the call it had entered {one.its:,} of {one.other}, "
                f"{named(one.witnesses)} {one.usual:,}"
            )


def all_arrived_text(job: FlightJob, calls: Sequence[Call], waiting: Sequence[int]) -> str:
    """Return that every member entered a call and none finished it."""
    all_of = "both" if len(calls) == 2 else f"all {len(calls)}"
    text = (
        f"{all_of} members entered {job.short_text(calls[0])} and none finished it: the cause is "
        "a link, a network card or a device, not a late rank"
    )
    verb = "waits" if len(waiting) == 1 else "wait"
    return text + (f"; {count_ranks(len(waiting))} {verb} for them" if waiting else "")


def unstarted(job: FlightJob, calls: Sequence[Call]) -> Iterator[str]:
    """Yield members whose kernel did not start while others did: known with timing alone."""
    states = {one.rank: int(job.ranks[one.rank].dump.columns.state[one.row]) for one in calls}
    late = [rank for rank, state in states.items() if state == SCHEDULED]
    if late and len(late) < len(states) and STARTED in states.values():
        yield f"on {named(late)} it did not start, on the others it did: other work is before it"


def listed_calls(job: FlightJob, calls: Sequence[Call]) -> str:
    """Return different calls, the most frequent first."""
    counts: dict[str, int] = defaultdict(int)
    for one in calls:
        counts[job.call_text(one)] += 1
    return listed(sorted(counts, key=lambda text: -counts[text]), 3)


def late_text(job: FlightJob, late: Late) -> str:
    """Return who keeps the others waiting where nothing hangs."""
    return (
        f"nothing hangs, but rank {late.rank} comes {late.median_ms:.3g} ms late to collectives "
        f"of {job.groups[late.group].label} (median)"
    )


def late_facts(job: FlightJob, late: Late) -> Iterator[str]:
    """Yield in how many collectives, and how lateness was measured."""
    group = job.group_text(late.group)
    yield f"it comes after the others to {late.num_late} of {late.num_calls} collectives of {group}"
    if late.by_duration:
        yield (
            "by the time on the devices of collectives before which all members were in the same "
            "one: the last to arrive has the shortest"
        )
    else:
        yield "by the times of the calls, without the time that it waited in other groups"


def limits(job: FlightJob) -> Iterator[str]:
    """Yield what the dumps do not hold: ranks, entries, members, moments."""
    if job.missing and job.ranks:
        least = "" if job.is_world_stated else "at least "
        yield f"no dump of {named(job.missing)}, of {least}{job.world} ranks"
    lost = _lost(job)
    if job.is_only_active:
        yield "the dumps hold active entries alone: what is complete is known by its number"
    elif lost:
        rank = max(lost, key=lambda one: lost[one])
        kept = len(job.ranks[rank].dump.columns)
        yield (
            f"the ring lost the oldest entries of {count_ranks(len(lost))}, at most {lost[rank]:,} "
            f"of {lost[rank] + kept:,} on rank {rank}"
        )
    if any(not one.is_stated for one in job.groups):
        yield "members of groups are not stated: those count that have entries of the group"
    if job.are_apart:
        yield "the files were written more than a minute apart: they may be of different moments"


def _lost(job: FlightJob) -> Mapping[int, int]:
    return {rank: number for rank, one in job.ranks.items() if (number := one.dump.num_overwritten)}
