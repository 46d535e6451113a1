"""Judge a hang by the dumps of the flight recorders: who did not arrive, and who waits for whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from msgspec import structs

from ccltui.metrics.hangs import flight_words as words
from ccltui.metrics.hangs.flight_job import Call, FlightJob
from ccltui.metrics.hangs.flight_mismatch import Mismatch, late_rank, mismatches
from ccltui.metrics.hangs.flight_waits import OutOfOrder, Waits, apart_from_others, out_of_order
from ccltui.metrics.hangs.hang import (
    Does,
    Hang,
    Standing,
    Sure,
    count_ranks,
    operation_words,
    ranks_text,
    sentence,
)
from ccltui.parsers.flight_recorder.dump import FlightDump

_LEVELS: Final[tuple[Sure, ...]] = ("high", "medium", "low")
_LEAST_WITNESSES: Final = 2
"""Ranks that wait for a rank, from which on it is surely the one."""


def flight_hang(
    dumps: Sequence[FlightDump], *, refused: Sequence[str] = (), files: Sequence[str] = ()
) -> Hang | None:
    """Return what the dumps of one job say; None without any dump.

    Args:
        dumps: One or more for each rank.
        refused: Why files are no dump that can be read, a line each.
        files: Paths of all of them.
    """
    if not dumps and not refused:
        return None
    judge = _Judge(FlightJob(dumps), refused)
    found = judge.hang()
    return structs.replace(
        found,
        text=sentence(found.text),
        more=tuple(sentence(one) for one in (*found.more, *judge.limits())),
        do=sentence(found.do),
        record="flight recorder",
        files=tuple(files),
        standing=judge.standing(found.ranks),
        since_ns=judge.since_ns(),
        world_size=judge.world_size,
    )


class _Judge:
    def __init__(self, job: FlightJob, refused: Sequence[str]) -> None:
        self._job = job
        self._refused = refused
        self._mismatches = mismatches(job)
        stuck = [call for one in self._mismatches if one.is_hung for call in one.calls.values()]
        self._waits = Waits(job, stuck)
        self._in_mismatch = {call.rank for call in stuck if not self._is_done(call)}

    def _is_done(self, call: Call) -> bool:
        return bool(self._job.ranks[call.rank].is_done[call.row])

    @property
    def world_size(self) -> int | None:
        """Number of ranks of the job, None where no dump states it."""
        return self._job.world if self._job.is_world_stated else None

    def since_ns(self) -> int | None:
        """Return when the first rank that waits made the call that it waits in."""
        calls = [wait.call for wait in self._waits.by_rank.values()]
        made = [int(self._job.ranks[one.rank].dump.columns.created_ns[one.row]) for one in calls]
        return min((one for one in made if one > 0), default=None)

    def hang(self) -> Hang:
        """Return the verdict: the first cause that applies."""
        if not self._job.ranks:
            return self._unreadable()
        judges = (
            *(self._mismatch, self._stopped, self._no_dump, self._all_arrived, self._order),
            *(self._undecided, self._lost, self._pending, self._wrong_numbers, self._late),
        )
        for judge in judges:
            if (found := judge()) is not None:
                return found
        return Hang("nothing", "no rank waits: every collective in the dumps is complete",
                    sure="medium", do=words.WHEN_NOTHING)  # fmt: skip

    def standing(self, named: Collection[str]) -> tuple[Standing, ...]:
        """Return what all ranks do, those that are named first, then as many as are alike."""
        held: dict[Standing, list[str]] = defaultdict(list)
        for rank in (*self._job.ranks, *self._job.missing):
            held[self._does(rank, is_named=str(rank) in named)].append(str(rank))
        found = (structs.replace(one, ranks=tuple(ranks)) for one, ranks in held.items())
        return tuple(sorted(found, key=lambda one: (not one.is_named, -len(one.ranks))))

    def _does(self, rank: int, *, is_named: bool) -> Standing:
        """Return what a rank does, without its label."""
        calls = self._job.ranks.get(rank)
        if calls is None:
            return Standing((), "left no dump", is_named=is_named)
        frozen, wait = self._waits.frozen.get(rank), self._waits.by_rank.get(rank)
        does: Does = "was last in"
        targets: tuple[str, ...] = ()
        call = self._job.last_call(rank)
        if frozen is not None:
            does, call = "stopped in", frozen[0]
        elif wait is not None:
            does, call, targets = "waits in", wait.call, _labels(wait.targets)
        elif calls.pending:
            does, call = "is in", calls.pending[0]
        if call is None:
            return Standing((), does, is_named=is_named)
        text, place = self._job.call_text(call), words.place_of(self._job, call)
        return Standing((), does, text, targets, place, is_named)

    def _unreadable(self) -> Hang:
        count = len(self._refused) + len(self._job.unused)
        text = f"none of {count} dumps of the flight recorder can be used"
        text = text if count > 1 else "the dump of the flight recorder cannot be used"
        return Hang("abstained", text, sure="low", do=words.ALL_DUMPS)

    def _mismatch(self) -> Hang | None:
        found = next((one for one in self._mismatches if one.is_hung and one.odd), None)
        return None if found is None else self._of_mismatch(found)

    def _undecided(self) -> Hang | None:
        """A call in which ranks stand and differ, where nobody can be named."""
        found = next((one for one in self._mismatches if one.is_hung), None)
        return None if found is None else self._of_mismatch(found)

    def _wrong_numbers(self) -> Hang | None:
        """A call in which ranks differ and that ended all the same."""
        return self._of_mismatch(self._mismatches[0]) if self._mismatches else None

    def _of_mismatch(self, found: Mismatch) -> Hang:
        standing = [rank for rank in found.calls if rank not in found.odd]
        direct, through = self._waits.waiting_for(list(found.calls))
        waiting = sorted({*standing, *direct, *through} if found.is_hung else [])
        signature = next(iter(found.signatures.values()))
        return Hang(
            "mismatch",
            words.mismatch_text(self._job, found),
            tuple(words.mismatch_facts(self._job, found)),
            _labels(found.odd),
            _labels(waiting),
            self._job.groups[found.group].label,
            operation_words((found.expected or signature).operation),
            found.seq,
            self._lowered(found.sure),
            words.SAME_CALLS if found.odd or found.is_hung else words.SAME_SIZES,
        )

    def _stopped(self) -> Hang | None:
        """Ranks with a dump that did not arrive, and those that stand in what others finished."""
        frozen = self._waits.frozen
        roots, is_clear = self._roots()
        if not roots and not frozen:
            return None
        named = sorted({*roots, *frozen})
        call, _ = words.main_wait(self._waits, roots or named)
        direct, through = self._waits.waiting_for(named)
        text = words.stopped_text(self._job, self._waits, roots, [*direct, *through])
        sure: Sure = self._sure_of(roots) if roots and is_clear else self._lowered("medium")
        only_weak = roots and all(not self._is_strong(rank) for rank in roots)
        if only_weak and len(roots) > 1 and not frozen:
            return self._weak(roots)
        at = call or next(iter(frozen.values()))[0]
        return Hang(
            "did_not_arrive" if roots else "frozen",
            text,
            tuple(words.stopped_facts(self._job, self._waits, named, self._in_mismatch)),
            _labels(named),
            _labels([*direct, *through]),
            self._job.groups[at.group].label,
            self._operation(at),
            self._number(at),
            sure,
            words.at_ranks(self._job, named, is_frozen=bool(frozen)),
        )

    def _roots(self) -> tuple[list[int], bool]:
        """Return ranks with a dump that are waited for and wait for nobody, and if that is clear.

        One that is in a call that all members entered may be a victim there. It is named where all
        the others of that call went on and wait for it in a later one.
        """
        waits = self._waits
        found = [rank for rank in waits.roots()
                 if rank in self._job.ranks and rank not in self._in_mismatch]  # fmt: skip
        clear = [rank for rank in found if rank not in waits.arrived]
        if clear or waits.rings():
            return clear, True
        behind = []
        for rank in found:
            others = set(self._job.groups[waits.arrived[rank].group].members) - {rank}
            direct, through = waits.waiting_for([rank])
            if others <= {*direct, *through}:
                behind.append(rank)
        return behind, False

    def _weak(self, roots: Sequence[int]) -> Hang:
        direct, through = self._waits.waiting_for(roots)
        text = (
            f"sends and receives of {count_ranks(len(direct) + len(through))} wait for "
            f"{ranks_text(_labels(roots))}, whose side of them may be lost: nobody is named"
        )
        return Hang("abstained", text, tuple(words.chain(self._job, self._waits)), (),
                    _labels([*direct, *through]), sure="low", do=words.WHOLE_RINGS)  # fmt: skip

    def _is_strong(self, rank: int) -> bool:
        return any(rank in wait.targets and wait.is_strong for wait in self._waits.by_rank.values())

    def _sure_of(self, roots: Sequence[int]) -> Sure:
        """Return how sure the least sure of some roots is."""
        return max((self._sure_of_one(rank) for rank in roots), key=_LEVELS.index)

    def _sure_of_one(self, rank: int) -> Sure:
        waits = [wait for wait in self._waits.by_rank.values() if rank in wait.targets]
        strong = [wait for wait in waits if wait.is_strong]
        if not strong:
            return "low"
        groups = [self._job.groups[wait.call.group] for wait in strong]
        is_pair = any(len(group.members) == 2 for group in groups)
        is_stated = all(group.is_stated for group in groups)
        many = len(strong) >= _LEAST_WITNESSES or is_pair
        is_sure = many and is_stated and not self._job.missing
        return self._lowered("high" if is_sure else "medium")

    def _lowered(self, sure: Sure) -> Sure:
        """Return a level, one lower where dumps may be of different moments."""
        steps = int(self._job.are_apart)
        return _LEVELS[min(_LEVELS.index(sure) + steps, len(_LEVELS) - 1)]

    def _no_dump(self) -> Hang | None:
        """Ranks that others wait for and that left no dump."""
        roots = [rank for rank in self._waits.roots() if rank not in self._job.ranks]
        if not roots:
            return None
        apart = apart_from_others(self._job, self._waits)
        if len(apart) == 1:  # the rank without a dump may be one of those that wait
            found = self._of_order(sorted(self._waits.by_rank), apart)
            return structs.replace(found, sure="low")
        direct, through = self._waits.waiting_for(roots)
        call, _ = words.main_wait(self._waits, roots)
        if len(self._job.missing) > len(self._job.ranks):
            return self._too_few(call)
        idle = [rank for rank in self._job.ranks if rank not in self._waits.by_rank
                and not self._job.ranks[rank].pending]  # fmt: skip
        is_stated = call is not None and self._job.groups[call.group].is_stated
        is_sure = len(roots) == 1 and is_stated and not idle and not apart
        more = [*words.chain(self._job, self._waits), *words.idle_facts(idle)]
        at = call or next(iter(self._waits.by_rank.values())).call
        return Hang(
            "no_dump",
            words.no_dump_text(self._job, roots, at, [*direct, *through]),
            tuple(more),
            _labels(roots),
            _labels([*direct, *through]),
            self._job.groups[at.group].label,
            self._operation(at),
            self._number(at),
            self._lowered("medium") if is_sure else "low",
            words.AT_LOST.format(who=ranks_text(_labels(roots))),
        )

    def _too_few(self, call: Call | None) -> Hang:
        at = "" if call is None else f": {count_ranks(len(self._waits.by_rank))} wait, first in "
        at += "" if call is None else self._job.call_text(call)
        text = (
            f"dumps of {len(self._job.ranks)} of {self._job.world} ranks do not tell who did not "
            f"arrive{at}"
        )
        return Hang("abstained", text, (), (), _labels(sorted(self._waits.by_rank)), sure="low",
                    do=words.ALL_DUMPS)  # fmt: skip

    def _order(self) -> Hang | None:
        """Ranks that wait for one another."""
        rings = self._waits.rings()
        if not rings:
            return None
        return self._of_order(rings[0], out_of_order(self._job, self._waits, rings[0]))

    def _of_order(self, ring: Sequence[int], found: Sequence[OutOfOrder]) -> Hang:
        direct, through = self._waits.waiting_for(ring)
        named = [one.rank for one in found]
        waiting = sorted({*ring, *direct, *through} - set(named))
        call = found[0].call if found else self._waits.by_rank[ring[0]].call
        return Hang(
            "order",
            words.order_text(self._job, ring, found),
            (*words.order_facts(ring, found), *words.chain(self._job, self._waits)),
            _labels(named),
            _labels(waiting),
            self._job.groups[call.group].label,
            self._operation(call),
            self._number(call),
            self._lowered("medium") if len(found) == 1 else "low",
            words.SAME_ORDER,
        )

    def _all_arrived(self) -> Hang | None:
        """A call that every member entered, that none finished, and that is the first on each."""
        by_call: dict[tuple[int, int], list[Call]] = defaultdict(list)
        for rank, call in self._waits.arrived.items():
            if call == self._job.ranks[rank].pending[0]:
                by_call[call.group, call.seq].append(call)
        whole = [
            calls for (group, _), calls in by_call.items()
            if len(calls) == len(self._job.groups[group].members)
        ]  # fmt: skip
        if not whole:
            return None
        calls = max(whole, key=len)
        direct, through = self._waits.waiting_for([one.rank for one in calls])
        return Hang(
            "all_arrived",
            words.all_arrived_text(self._job, calls, [*direct, *through]),
            tuple(words.unstarted(self._job, calls)),
            (),
            _labels(sorted({*(one.rank for one in calls), *direct, *through})),
            self._job.groups[calls[0].group].label,
            self._operation(calls[0]),
            self._number(calls[0]),
            "low",
            words.AT_NETWORK,
        )

    def _lost(self) -> Hang | None:
        """A rank without a dump, where the members of groups are not stated (gloo).

        Calls of gloo end on all others when a process is gone, so that none of them is seen to
        wait for it.
        """
        is_gloo = any("gloo" in one.dump.backends for one in self._job.ranks.values())
        lost = self._job.missing
        if not is_gloo or not lost or len(lost) > len(self._job.ranks):
            return None
        who = ranks_text(_labels(lost))
        text = f"{who} left no dump, and the dumps of the others do not show where it is missing"
        return Hang("no_dump", text, ("gloo does not record whether a call ended or failed",),
                    _labels(lost), sure="low", do=words.AT_LOST.format(who=who))  # fmt: skip

    def _pending(self) -> Hang | None:
        """Calls that nobody finished, where nobody is seen to be missing."""
        found = [call for calls in self._job.ranks.values() for call in calls.pending[:1]
                 if not self._is_finished_elsewhere(call)]  # fmt: skip
        if not found:
            return None
        what = words.listed_calls(self._job, found)
        ranks = _labels(sorted({one.rank for one in found}))
        text = f"{ranks_text(ranks)} had calls under way when the dump was written: {what}"
        more = ("no member is seen to be missing: this need not be a hang",)
        return Hang("abstained", text, more, (), ranks, sure="low", do=words.ALL_DUMPS)

    def _is_finished_elsewhere(self, call: Call) -> bool:
        """Whether a member has finished a call: the dump was written while it ended."""
        return not self._job.is_p2p(call) and any(
            one.completed.get(call.group, -1) >= call.seq
            for one in self._job.members_with_dump(call.group)
        )

    def _late(self) -> Hang | None:
        """Nothing hangs, and one rank keeps the others waiting."""
        late = late_rank(self._job)
        if late is None:
            return None
        return Hang(
            "late",
            words.late_text(self._job, late),
            tuple(words.late_facts(self._job, late)),
            _labels([late.rank]),
            (),
            self._job.groups[late.group].label,
            sure="medium",
            do=words.AT_LATE,
        )

    def _operation(self, call: Call) -> str:
        return operation_words(self._job.ranks[call.rank].operation(call.row))

    def _number(self, call: Call) -> int | None:
        """Return its number; that of a send or receive is stale."""
        return None if self._job.is_p2p(call) else call.seq

    def limits(self) -> Iterator[str]:
        """Yield what the dumps do not hold."""
        yield from words.limits(self._job)
        left_out = [*(f"not read: {one}" for one in self._refused), *self._job.unused]
        yield from left_out[: words.MOST_LINES]
        if len(left_out) > words.MOST_LINES:
            yield f"{len(left_out) - words.MOST_LINES} more files are not used"


def _labels(ranks: Collection[int]) -> tuple[str, ...]:
    return tuple(map(str, ranks))
