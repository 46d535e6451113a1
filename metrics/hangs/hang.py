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
        record: What tells it: "watchdog", "ras", "flight recorder".
        files: Paths of the files.
        where: Folder of the job below the directory, "" for that itself.
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
