"""A hang: what stands, who did not arrive, who waits, and how sure that is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

Kind = Literal[
    "did_not_arrive",  # ranks that did not enqueue what the others wait in
    "printed_nothing",  # the only ranks of the group without a word
    "frozen",  # ranks that stand in what others have finished
    "mismatch",  # ranks that called another operation, or another size, than the others
    "no_dump",  # ranks that others wait for, or that ended, and that left no record
    "order",  # ranks that wait for one another in groups that they entered in different order
    "never_completed",  # all entered, and nothing of the group ever ended
    "all_arrived",  # all entered, none finished
    "peers_missing",  # processes that do not answer
    "errors",  # ranks that report an error of NCCL
    "behind",  # ranks with fewer operations launched: a moment, or a hang
    "abstained",  # the records do not tell
    "late",  # nothing hangs, and a rank keeps the others waiting
    "nothing",  # a report in which every rank is where the others are
]
Sure = Literal["high", "medium", "low"]


Does = Literal[
    "stopped in",  # stands in a call that others have finished
    "waits in",  # a call that others have not entered
    "is in",  # its oldest call that is not complete
    "was last in",  # is in no recorded call
    "left no dump",  # no record of its calls
    "did not arrive",  # where the others wait: all that such a record says of it
    "called another",  # called something else than the others
    "reports an error",
    "does not answer",
    "is behind",
    "is late",
    "not known",
]


class Standing(Struct, frozen=True):
    """What ranks of a hang do: those that are in the same call and wait for the same ranks.

    Attributes:
        ranks: Labels of the ranks.
        does: What they do.
        call: The call that they are in, or the last one that they entered: "all-reduce 9 of tp";
            "" where it is not known.
        waits_for: Labels of the ranks that have not entered it.
        place: Where the call was made: "`train_step` (train.py:143)"; "" where not recorded.
        is_named: Whether the hang is put down to them.
    """

    ranks: tuple[str, ...]
    does: Does
    call: str = ""
    waits_for: tuple[str, ...] = ()
    place: str = ""
    is_named: bool = False


class Hang(Struct, frozen=True):
    """One hang and the record that tells of it.

    Attributes:
        kind: What stands.
        text: The first sentence: who did not arrive at what, and who waits.
        more: What else the record says, a sentence each.
        ranks: Labels of the ranks that are named: that did not arrive, stopped, called something
            else, or are late; () where nobody is.
        waiting: Labels of the ranks that wait for them.
        group: The process group or communicator.
        operation: What they wait in: "all-reduce"; "" where not said.
        sequence: Its number in the group, None where not said.
        sure: How sure the culprits are, or that nobody is.
        do: What to do next.
        record: What tells it: "watchdog", "ras", "flight recorder", or several, joined by ", ".
        files: Paths of the files.
        where: Folder of the job below the directory, "" for that itself.
        standing: What all ranks do, those that are named first; () where only the ranks above are
            known.
        is_local: The ranks are numbered inside a communicator, and nothing tells those of the job.
        alive: Labels of ranks that the record shows to run: they answer, or printed something.
        since_ns: When the first of those that wait made the call that they wait in, on its own
            clock since the epoch; None where the record does not say.
        world_size: Number of ranks of the job, None where the record does not state it.
    """

    kind: Kind
    text: str
    more: tuple[str, ...] = ()
    ranks: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    group: str = ""
    operation: str = ""
    sequence: int | None = None
    sure: Sure = "medium"
    do: str = ""
    record: str = ""
    files: tuple[str, ...] = ()
    where: str = ""
    standing: tuple[Standing, ...] = ()
    is_local: bool = False
    alive: tuple[str, ...] = ()
    since_ns: int | None = None
    world_size: int | None = None

    def rows(self) -> tuple[Standing, ...]:
        """Return what all ranks do; of a record that does not say so, who waits for whom."""
        if self.standing:
            return self.standing
        number = "" if self.sequence is None else f" {self.sequence:,}"
        call = f"{self.operation}{number}" + (f" of {self.group}" if self.group else "")
        does = _DOES.get(self.kind, "did not arrive")
        named = Standing(self.ranks, does, is_named=True)
        waiting = Standing(self.waiting, "waits in", call.strip(), self.ranks)
        return tuple(one for one in (named, waiting) if one.ranks) or (Standing((), "not known"),)

    @property
    def num_blamed(self) -> int:
        """Ranks that the hang is put down to: none where nothing hangs and a rank is late."""
        return 0 if self.kind == "late" else len(self.ranks)

    @property
    def is_hung(self) -> bool:
        """Whether the job hangs: a call in which ranks differ may have ended all the same."""
        return self.kind not in ("late", "nothing") and (
            self.kind != "mismatch" or any(self.waiting)
        )


_DOES: Final[dict[Kind, Does]] = {
    "frozen": "stopped in",
    "mismatch": "called another",
    "order": "called another",
    "no_dump": "left no dump",
    "peers_missing": "does not answer",
    "errors": "reports an error",
    "behind": "is behind",
    "late": "is late",
}
"""What the ranks do that a hang is put down to, where their calls are not known."""
_OPERATIONS: Final = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "sendrecv": "send and receive",
}


def operation_words(name: str) -> str:
    """Return an operation as people write it: ``_ALLGATHER_BASE`` is "all-gather"."""
    bare = re.sub(r"[^a-z]", "", name.lower())
    return next((words for key, words in _OPERATIONS.items() if key in bare), name.lower())


def ranks_text(labels: Sequence[str], most: int = 8) -> str:
    """Return ranks in a sentence: "rank 5", "ranks 0-3 and 7", or labels that are no numbers."""
    if not all(label.isdecimal() for label in labels):
        more = f" and {len(labels) - most} more" if len(labels) > most else ""
        return ", ".join(labels[:most]) + more
    parts = ranges(sorted({int(label) for label in labels}))
    more = f" and {len(parts) - most} more ranges" if len(parts) > most else ""
    named = " and ".join(filter(None, [", ".join(parts[:most][:-1]), parts[:most][-1]]))
    return f"rank{'' if len(labels) == 1 else 's'} {named}{more}"


def few_ranks(labels: Sequence[str], total: int | None = None) -> str:
    """Return ranks for a first sentence: by number up to two, else "12 ranks", "12 of 32 ranks"."""
    named = ranks_text(labels)
    if len(re.findall(r"\d+", named)) <= _MOST_IN_FIRST:
        return named
    return count_ranks(len(labels)) if total is None else f"{len(labels)} of {total} ranks"


_MOST_IN_FIRST: Final = 2
"""Numbers of ranks in a first sentence, which holds three numbers at most."""


def ranges(numbers: Sequence[int]) -> list[str]:
    """Return ascending numbers, three and more in a row as "0-3"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    short = [[str(one) for one in run] for run in runs]
    return [text for run in short for text in (run if len(run) < 3 else [f"{run[0]}-{run[-1]}"])]


def count_ranks(count: int) -> str:
    """Return "1 rank", "15 ranks"."""
    return f"{count} rank{'' if count == 1 else 's'}"


def sentence(text: str) -> str:
    """Return a text that begins with a capital and ends with a full stop."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
