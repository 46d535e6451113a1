"""Judge a hang by what the watchdogs of the ranks printed.

The rank that prints first is a victim: its watchdog gave up first because it waited longest. Who is
to be named is the rank whose last enqueued collective is behind the one that the others wait in.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import structs

from ccltui.metrics.hangs.hang import (
    Hang,
    Kind,
    Sure,
    count_ranks,
    operation_words,
    ranks_text,
    sentence,
)
from ccltui.parsers.runs.watchdog_lines import Desync, GroupState, WatchdogLines

_SYNCHRONISING: Final = ("allreduce", "allgather", "reducescatter", "alltoall")
"""Operations that no member finishes before all have entered."""
_P2P: Final = ("send", "recv")
_EVEN: Final = ("ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE")
"""Operations whose sizes are the same on all members; those on lists may be uneven."""
_MOST_FACTS: Final = 8
_DUMPS: Final = (
    "Run with TORCH_NCCL_TRACE_BUFFER_SIZE=2000 (TORCH_FR_BUFFER_SIZE from PyTorch 2.8): at the "
    "next time-out every rank writes a dump with the call that it is in"
)
_AT_RANK: Final = (
    "Look at {who}: the last lines printed there, and the stack (py-spy dump). " + _DUMPS
)
_AT_NETWORK: Final = (
    "Test the group without the program: nccl-tests between the same devices, with "
    "NCCL_DEBUG=INFO, and NCCL_P2P_DISABLE=1 or NCCL_IB_DISABLE=1 in turn; then errors of links "
    "and devices (nvidia-smi -q, dmesg)"
)


def watchdog_hang(lines: WatchdogLines, files: tuple[str, ...] = ()) -> Hang | None:
    """Return the hang of the last attempt; None where no watchdog gave up."""
    if not lines.attempts:
        return None
    judge = _Judge(lines.of_attempt(lines.attempts))
    found = judge.hang()
    if found is None:
        return None
    more = list(found.more)
    if lines.attempts > 1:
        before = [_Judge(lines.of_attempt(one)).hang() for one in range(1, lines.attempts)]
        told = [one.text for one in before if one is not None]
        same = sum(one is not None and one.ranks == found.ranks for one in before)
        more.append(
            f"the logs hold {lines.attempts} attempts; this is the last, and {same} of the "
            f"{len(told)} before it name the same" if told else
            f"the logs hold {lines.attempts} attempts; this is the last"
        )  # fmt: skip
    return structs.replace(
        found,
        text=sentence(found.text),
        more=tuple(sentence(one) for one in more),
        do=sentence(found.do),
        record="watchdog",
        files=files,
        alive=judge.speaking,
        world_size=lines.world_size,
    )


class _Group:
    """One group: the states of its members by label."""

    def __init__(
        self, key: str, states: Sequence[GroupState], lines: WatchdogLines, *, is_only: bool
    ) -> None:
        self.key = key
        self.name = next((one.name for one in states if one.name), "")
        self.is_default = any(one.is_default and one.group for one in states) or is_only
        self.states = {self._label(one): one for one in states}
        self.world = lines.world_size if self.is_default else None
        stuck = [one.timed_out for one in states if one.timed_out is not None]
        self.first_stuck = min(stuck, default=None)
        self.waits_at = max(stuck, default=None)

    def _label(self, one: GroupState) -> str:
        if one.rank is not None:
            return str(one.rank)
        return f"rank {one.local_rank} of {self.label}" if one.local_rank is not None else "a rank"

    @property
    def label(self) -> str:
        """The group in a sentence."""
        if not self.key:
            return "a group that the log does not name"  # so PyTorch up to 2.1
        if self.is_default:
            return self.name or "the group of all ranks"
        return f"group {self.key}" + (f" ({self.name})" if self.name else "")

    @property
    def timed_out(self) -> dict[str, GroupState]:
        """States of the ranks whose watchdog gave up."""
        return {label: one for label, one in self.states.items() if one.timed_out is not None}

    @property
    def is_cut(self) -> bool:
        """Whether a rank printed that it gave up, and not the numbers that all print after it."""
        told = {one.local_rank for one in self.states.values() if one.enqueued is not None}
        return bool(told) and any(one.local_rank not in told and one.enqueued is None
                                  for one in self.timed_out.values())  # fmt: skip

    def call(self, seq: int | None) -> str:
        """A collective in a sentence: "all-reduce 100 of default_pg"."""
        named = Counter(
            one.operation for one in self.states.values() if one.operation and one.timed_out == seq
        )
        operation = operation_words(named.most_common(1)[0][0]) if named else "collective"
        return f"{operation}{'' if seq is None else f' {seq:,}'} of {self.name or self.label}"

    def operation(self, seq: int | None) -> str:
        """Its operation, "" where not said."""
        named = [one.operation for one in self.states.values() if one.timed_out == seq]
        return next((operation_words(name) for name in named if name), "")

    @property
    def carries_p2p(self) -> bool:
        """Whether sends and receives are in it, of which each rank has its own numbers."""
        return any(one.operation.lower() in _P2P for one in self.states.values())

    def behind(self) -> dict[str, GroupState]:
        """States of the ranks that did not enqueue what the others wait in."""
        if self.carries_p2p:
            return {}
        at = self.first_stuck
        return {
            label: one
            for label, one in self.states.items()
            if at is not None and one.enqueued is not None and one.enqueued < at
        }

    def silent(self) -> tuple[str, ...]:
        """Members without any word, as far as the members are known; () where they are not."""
        known = {one.rank for one in self.states.values() if one.rank is not None}
        if self.is_default:
            size = max(self.world or 0, max(known, default=-1) + 1)
            return tuple(str(rank) for rank in range(size) if rank not in known)
        return self._silent_by_place(known)

    def _silent_by_place(self, known: set[int]) -> tuple[str, ...]:
        """The members between others, where ranks of the group are evenly apart in the job."""
        places = {
            one.local_rank: one.rank
            for one in self.states.values()
            if one.rank is not None and one.local_rank is not None
        }
        missing = [place for place in range(max(places, default=-1) + 1) if place not in places]
        if len(places) < 2 or not missing:
            return ()
        (a, first), (b, second) = sorted(places.items())[:2]
        stride, rest = divmod(second - first, b - a)
        fits = all(rank == first + (place - a) * stride for place, rank in places.items())
        if rest or stride < 1 or not fits:
            return ()
        return tuple(str(first + (place - a) * stride) for place in missing)

    def frozen(self) -> dict[str, GroupState]:
        """Ranks that stand in what another has finished, where none may finish before all entered.

        Two ahead at least: the one after it may have ended while the words were written.
        """
        done = [
            max(one.completed if one.completed is not None else -1, (one.timed_out or 0) - 1)
            for one in self.states.values()
        ]
        furthest = max(done, default=-1)
        return {
            label: one
            for label, one in self.timed_out.items()
            if _is_synchronising(one) and furthest - (one.timed_out or furthest) + 1 >= 2
        }

    def mismatch(self) -> Hang | None:
        """Ranks that called something else under the number that others wait in."""
        by_seq: dict[int, dict[str, GroupState]] = defaultdict(dict)
        for label, one in self.timed_out.items():
            if one.operation and one.timed_out is not None:
                by_seq[one.timed_out][label] = one
        for seq, states in sorted(by_seq.items()):
            if (found := self._differing(seq, states)) is not None:
                return found
        return None

    def _differing(self, seq: int, states: Mapping[str, GroupState]) -> Hang | None:
        called = {label: _called(one) for label, one in states.items()}
        counts = Counter(called.values())
        pair = {operation.lower() for operation, *_ in counts}
        if len(counts) < 2 or pair <= {"send", "recv"}:
            return None
        most, count = counts.most_common(1)[0]
        others = tuple(label for label, one in called.items() if one != most)
        said = "; ".join(
            f"{ranks_text([label for label, one in called.items() if one == what])} {_words(what)}"
            for what in counts
        )
        is_majority = 2 * count > len(called)
        text = f"ranks call different collectives under number {seq:,} of {self.label}: {said}"
        if is_majority:
            text = (
                f"{ranks_text(others)} called {_words(called[others[0]])} where "
                f"{count_ranks(count)} called {_words(most)}, number {seq:,} of {self.label}"
            )
        return Hang(
            "mismatch",
            text,
            () if is_majority else ("as many ranks call the one as the other: neither is named",),
            others if is_majority else (),
            tuple(label for label, one in called.items() if one == most) if is_majority else (),
            self.label,
            operation_words(most[0]),
            seq,
            ("high" if count > 2 else "medium") if is_majority and self.key else "low",
            "Make all ranks call the same collectives in the same order and size: look for calls "
            "under a condition that depends on the rank, and for uneven batches",
        )


def _called(one: GroupState) -> tuple[str, int | None, int | None]:
    if one.operation.upper() not in _EVEN:
        return one.operation, None, None
    return one.operation, one.numel_in, one.numel_out


def _is_synchronising(one: GroupState) -> bool:
    bare = one.operation.lower().replace("_", "")
    return any(word in bare for word in _SYNCHRONISING)


def _words(called: tuple[str, int | None, int | None]) -> str:
    operation, numel_in, _ = called
    return operation_words(operation) + ("" if numel_in is None else f" of {numel_in:,} elements")


class _Judge:
    """The groups of one attempt, and who waits for whom in them."""

    def __init__(self, lines: WatchdogLines) -> None:
        by_group: dict[str, list[GroupState]] = defaultdict(list)
        for one in lines.states:
            by_group[one.group].append(one)
        self._lines = lines
        self._groups = [
            _Group(key, states, lines, is_only=not key and len(by_group) == 1)
            for key, states in by_group.items()
        ]
        self._stuck = [group for group in self._groups if group.timed_out]
        self._waiting = {label for group in self._stuck for label in group.timed_out}

    @property
    def speaking(self) -> tuple[str, ...]:
        """Ranks that printed something."""
        return tuple({label: None for group in self._groups for label in group.states})

    def hang(self) -> Hang | None:
        """Return what stands; None where no rank gave up."""
        if not self._stuck and all(one.kind == "lost" for one in self._lines.desyncs):
            return None
        judges = (
            *(self._mismatch, self._frozen, self._behind, self._raised, self._desync),
            *(self._silent, self._idle),
        )
        for judge in judges:
            if (found := judge()) is not None:
                return found
        return self._all_arrived()

    def _mismatch(self) -> Hang | None:
        found = [one for group in self._stuck if (one := group.mismatch()) is not None]
        return None if not found else _with_facts(found[0], self._facts())

    def _behind(self) -> Hang | None:
        """Ranks that others wait for and that wait for nobody themselves, else all that lag."""
        lagging = {label for group in self._stuck for label in group.behind()}
        if not lagging:
            return None
        waiting = self._waiting
        if lagging <= waiting:
            return self._end_of_chain(lagging)
        roots = lagging - waiting
        groups = [group for group in self._stuck if roots & set(group.behind())]
        group = max(groups, key=lambda one: (len(roots & set(one.behind())), len(one.timed_out)))
        behind = {label: one for label, one in group.behind().items() if label in roots}
        others = tuple(label for label in group.timed_out if label not in roots)
        further = waiting - set(others) - roots
        last = sorted({one.enqueued for one in behind.values() if one.enqueued is not None})
        its = _last_words(last, len(behind))
        text = (
            f"{ranks_text(list(behind))} never entered {group.call(group.first_stuck)}; "
            f"{count_ranks(len(others) + len(further))} "
            f"{'waits' if len(others) + len(further) == 1 else 'wait'} for "
            f"{'it' if len(behind) == 1 else 'them'}"
        )
        more = [its]
        if further:
            more.append(f"{count_ranks(len(further))} of those that wait are in other groups")
        raised = [
            f"{ranks_text(behind_ranks)} raised {one.text}"
            for one in self._lines.desyncs
            if one.kind == "raised" and (behind_ranks := [str(one.ranks[0])])[0] in behind
        ]
        more += raised[:1]
        more.append(
            "a call counts as enqueued when NCCL's call returns: the rank may also be blocked "
            "inside it"
        )
        return _with_facts(
            Hang(
                "did_not_arrive",
                text,
                tuple(more),
                tuple(behind),
                tuple(sorted(waiting - roots, key=_order)),
                group.label,
                group.operation(group.first_stuck),
                group.first_stuck,
                "high" if len(others) > 1 and group.key else "medium",
                _AT_RANK.format(who=ranks_text(list(behind))),
            ),
            self._facts(),
        )

    def _end_of_chain(self, lagging: set[str]) -> Hang | None:
        """What stands where ranks that are behind wait themselves: they are not to blame.

        A member without a word, else a group that all have entered.
        """
        if (found := self._silent()) is not None:
            return found
        ends = [group for group in self._stuck
                if not group.behind() and lagging & set(group.timed_out)]  # fmt: skip
        if ends:
            return self._all_arrived(ends)
        text = (
            f"{ranks_text(sorted(lagging, key=_order))} are behind in one group and wait in "
            "another: the log does not tell who is at fault"
        )
        found = Hang("abstained", text, (), (), tuple(sorted(self._waiting, key=_order)),
                     sure="low", do=_DUMPS)  # fmt: skip
        return _with_facts(found, self._facts())

    def _desync(self) -> Hang | None:
        """What PyTorch's own reports say: who did not join, and whom a barrier missed."""
        kinds = ("never_joined", "did_not_join", "barrier", "stuck")
        for kind in kinds:
            found = [one for one in self._lines.desyncs if one.kind == kind and one.ranks]
            if found:
                return _with_facts(self._reported(kind, found), self._facts())
        return None

    def _reported(self, kind: str, found: Sequence[Desync]) -> Hang:
        ranks = tuple(sorted({str(rank) for one in found for rank in one.ranks}, key=_order))
        who, seq = ranks_text(ranks), max((one.seq or 0 for one in found), default=0)
        texts = {
            "never_joined": f"{who} never joined any collective, by PyTorch's own report",
            "did_not_join": f"{who} finished collective {seq:,} and did not join the next, by "
            "PyTorch's own report",
            "barrier": f"{who} did not pass a monitored barrier that others wait at",
            "stuck": f"the watchdog of {who} made no progress: its process is blocked in a call "
            "of CUDA or NCCL, or another thread holds the interpreter's lock",
        }
        waiting = self._waiting - set(ranks)
        return Hang(
            "frozen" if kind == "stuck" else "did_not_arrive",
            texts[kind],
            (),
            ranks,
            tuple(sorted(waiting, key=_order)),
            sequence=seq + 1 if kind == "did_not_join" else None,
            sure="medium",
            do=_AT_RANK.format(who=who),
        )

    def _frozen(self) -> Hang | None:
        for group in self._stuck:
            frozen = group.frozen() if group.key else {}  # numbers of several groups differ
            if not frozen or len(frozen) == len(group.states):
                continue
            at = min(one.timed_out or 0 for one in frozen.values())
            who = ranks_text(list(frozen))
            text = (
                f"{who} {'is' if len(frozen) == 1 else 'are'} still in {group.call(at)}, which "
                "other ranks have finished: the device or the watchdog of the rank stopped, not "
                "the collective"
            )
            others = tuple(label for label in group.timed_out if label not in frozen)
            do = (
                f"Look at the device of {who}: errors of Xid and ECC in dmesg and nvidia-smi -q. "
                f"{_DUMPS}"
            )
            found = Hang("frozen", text, (), tuple(frozen), others, group.label,
                         group.operation(at), at, "medium", do)  # fmt: skip
            return _with_facts(found, self._facts())
        return None

    def _raised(self) -> Hang | None:
        """Ranks that raised an exception and wait for nobody."""
        found = {
            str(one.ranks[0]): one.text
            for one in reversed(self._lines.desyncs)
            if one.kind == "raised" and str(one.ranks[0]) not in self._waiting
        }
        if not found or not self._stuck:
            return None
        ranks = tuple(sorted(found, key=_order))
        group = max(self._stuck, key=lambda one: len(one.timed_out))
        waiting = count_ranks(len(self._waiting))
        text = f"{ranks_text(ranks)} raised {found[ranks[0]]}; {waiting} " + (
            f"{'waits' if len(self._waiting) == 1 else 'wait'} in {group.call(group.first_stuck)}"
        )
        return _with_facts(
            Hang(
                "did_not_arrive",
                text,
                (),
                ranks,
                tuple(sorted(self._waiting, key=_order)),
                group.label,
                group.operation(group.first_stuck),
                group.first_stuck,
                "medium",
                f"Fix what {ranks_text(ranks)} raised: the time-outs follow from it",
            ),
            self._facts(),
        )

    def _silent(self) -> Hang | None:
        """The only members of a group without a word on it; a log of few ranks names nobody."""
        if any(group.is_cut for group in self._stuck):
            return None
        found = []
        for group in self._stuck:
            silent = tuple(one for one in group.silent() if one not in self._waiting)
            if silent and len(silent) <= len(group.timed_out):
                found.append((len(silent), silent, group))
        if not found and (silent := self._without_a_word()):
            group = max(self._stuck, key=lambda one: len(one.timed_out))
            found.append((len(silent), silent, group))
        if not found:
            return None
        _, silent, group = min(found, key=lambda one: one[0])
        who, at, waiting = ranks_text(silent), group.first_stuck, group.timed_out
        lives = [one for one in silent if any(one in other.states for other in self._groups)]
        lost = {str(one.ranks[0]): one.text for one in self._lines.desyncs if one.kind == "lost"}
        words = (
            f"{who} {'is' if len(silent) == 1 else 'are'} not there"
            if lives == list(silent)
            else f"{who} printed nothing about it"
        )
        why = (
            "its process is alive, and waits in no other collective"
            if lives == list(silent)
            else "it died, is blocked outside of NCCL, or its log is not here"
            if len(silent) == 1
            else "they died, are blocked outside of NCCL, or their logs are not here"
        )
        if not lives and set(silent) <= set(lost):
            words = f"{who} {'is' if len(silent) == 1 else 'are'} not there"
            why = f"it was in another call, which ended with {lost[silent[0]]}"
        text = (
            f"{words} while {count_ranks(len(waiting))} "
            f"{'waits' if len(waiting) == 1 else 'wait'} in {group.call(at)}: {why}"
        )
        is_sure = len(silent) == 1 and group.key
        return _with_facts(
            Hang("printed_nothing", text, (), silent, tuple(waiting), group.label,
                 group.operation(at), at, "medium" if is_sure else "low",
                 _AT_RANK.format(who=who)),
            self._facts(),
        )  # fmt: skip

    def _without_a_word(self) -> tuple[str, ...]:
        """Return ranks that print nothing of any group, where most others print of that of all."""
        everyone = next((one for one in self._groups if one.is_default and one.key), None)
        if everyone is None:
            return ()
        speaking = set(self.speaking)
        silent = tuple(label for label in everyone.silent() if label not in speaking)
        return silent if 2 * len(silent) < len(everyone.states) else ()

    def _idle(self) -> Hang | None:
        """The one rank that answers and waits in nothing, where the members are not known."""
        idle = sorted(set(self.speaking) - self._waiting, key=_order)
        if len(idle) != 1 or len(self._waiting) < 2:
            return None
        group = max(self._stuck, key=lambda one: len(one.timed_out))
        at, who = group.first_stuck, ranks_text(idle)
        text = (
            f"{who} answers and waits in no collective, while {count_ranks(len(self._waiting))} "
            f"wait, first in {group.call(at)}"
        )
        return _with_facts(
            Hang("did_not_arrive", text, ("whether it is a member of the group is not known",),
                 tuple(idle), tuple(sorted(self._waiting, key=_order)), group.label,
                 group.operation(at), at, "low", _AT_RANK.format(who=who)),
            self._facts(),
        )  # fmt: skip

    def _all_arrived(self, groups: Sequence[_Group] = ()) -> Hang | None:
        if not self._stuck:
            return None
        group = max(groups or self._stuck, key=lambda one: (len(one.timed_out), one.key != ""))
        at, stuck = group.first_stuck, group.timed_out
        absent = len(group.silent())
        elsewhere = set(group.states) & self._waiting - set(stuck)
        is_whole = not absent and not elsewhere and len(stuck) > 1
        whole = "both" if len(stuck) == 2 else f"all {len(stuck)}"
        who = f"{whole} ranks that print" if len(stuck) > 1 else "the one rank that prints"
        least = "" if group.world else "at least "
        who = f"{len(stuck)} of {least}{len(stuck) + absent} ranks" if absent else who
        first = [one.completed for one in stuck.values() if one.completed is not None]
        kind: Kind = "all_arrived" if is_whole else "abstained"
        text = f"{who} entered {group.call(at)} and none finished it"
        if not group.key and group.waits_at != at:
            text = f"{who} wait in different collectives of groups that the log does not name"
        more = "the cause is a link, a network card or a device; no rank is named"
        if group.world is None:
            more = f"if no other rank is in it, {more}"
        if first and max(first) < 0:
            kind = "never_completed"
            call = group.call(at).partition(" of ")[0]
            waits = "waits" if len(stuck) == 1 else "wait"
            text = f"{group.label} never completed a collective: {who} {waits} in {call}"
            more = "the cause is a connection or a device, not a late rank"
        if elsewhere:
            who = f"{len(stuck)} of {len(group.states)} ranks"
            text = f"{who} wait in {group.call(at)}, and the others of it wait in other groups"
            more = "who entered its groups in another order than the others is not in the log"
        elif not is_whole:
            more = "the logs of the other ranks are not here, so it is not known who did not arrive"
        do = f"{_AT_NETWORK}. {_DUMPS}" if is_whole else f"Collect the logs of all ranks. {_DUMPS}"
        sure: Sure = "medium" if is_whole else "low"
        found = Hang(kind, text, (more,), (), tuple(stuck), group.label, group.operation(at), at,
                     sure, do)  # fmt: skip
        return _with_facts(found, self._facts())

    def _facts(self) -> list[str]:
        """Return what was said of each group: ranks of equal words together."""
        facts = []
        for group in self._groups:
            by_words: dict[str, list[str]] = defaultdict(list)
            for label, one in group.states.items():
                by_words[_state_words(one)].append(label)
            parts = [f"{ranks_text(labels)} {words}" for words, labels in by_words.items() if words]
            if parts:
                facts.append(f"{group.label}: {'; '.join(parts[:_MOST_FACTS])}")
        return facts[:_MOST_FACTS]


def _last_words(last: Sequence[int], count: int) -> str:
    if not last:
        return "its last one is not known"
    if last[-1] < 0:
        return "it has enqueued none" if count == 1 else "they have enqueued none"
    if len(last) == 1:
        return f"{'its' if count == 1 else 'their'} last is {last[0]:,}"
    return f"their last are {last[0]:,} to {last[-1]:,}"


def _state_words(one: GroupState) -> str:
    known = (
        ("enqueued", one.enqueued),
        ("started", one.started),
        ("completed", one.completed),
    )
    parts = [f"{name} {'none' if number < 0 else f'{number:,}'}" for name, number in known
             if number is not None]  # fmt: skip
    if one.timed_out is not None:
        waited = "" if one.waited_ms is None else f" after {one.waited_ms / 1000:,.0f} s"
        parts.append(f"gave up at {one.timed_out:,}{waited}")
    return ", ".join(parts)


def _order(label: str) -> tuple[bool, int, str]:
    return (not label.isdecimal(), int(label) if label.isdecimal() else 0, label)


def _with_facts(found: Hang, facts: Sequence[str]) -> Hang:
    return structs.replace(found, more=(*found.more, *facts))
