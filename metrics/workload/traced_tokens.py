"""Count the tokens that ran in a step from the shapes of embedding look-ups in the traces.

``aten::embedding`` has its table and the indices as inputs. A language model looks up every token
once, in the forward pass, whatever the number of micro-batches: the sizes of its indices in a step
add up to the tokens of one data-parallel rank. Tensor parallelism repeats them on each of its
ranks, pipeline parallelism leaves them to the first stage, context parallelism divides them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.result import Reason

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

_OPERATOR: Final = "aten::embedding"
_Indices = tuple[int, ...]


class Tokens(Struct, frozen=True):
    """Tokens of the job in a step: ``batch_size`` sequences of ``seq_len``."""

    batch_size: int
    seq_len: int

    @property
    def per_step(self) -> int:
        """Tokens of a step."""
        return self.batch_size * self.seq_len


class TracedTokens(Struct, frozen=True):
    """Tokens of one data-parallel rank in a step, equal on all ranks that look any up.

    ``indices`` is the shape of a look-up, of a micro-batch: [sequences, length] or [tokens].
    ``calls`` is the number of look-ups in a step, ``ranks`` the labels of the ranks.
    """

    per_step: int
    indices: _Indices
    calls: int
    ranks: tuple[str, ...]

    @property
    def length(self) -> int | None:
        """Length of a sequence in the look-ups, None where they do not divide the tokens."""
        return self.indices[1] if len(self.indices) == 2 else None


def tokens_that_ran(
    view: View, stated: Tokens, replicas: int | None
) -> tuple[Tokens | None, list[Reason]]:
    """Compare the stated tokens of a step with those of the traces.

    Args:
        view: The job.
        stated: Batch and sequence length by card and files of the run.
        replicas: Number of data-parallel ranks, None where unknown.

    Returns:
        The tokens of the traces, None where they agree, are unknown, or the user states others;
        and the reason with both where they contradict each other.
    """
    if replicas is None or {"batch_size", "seq_len"} & set(view.options.overrides):
        return None, []
    traced = traced_tokens(view)
    if traced is None:
        return None, []
    context = _context(view)
    # A framework may divide the sequences over the context-parallel ranks before or after them.
    if stated.per_step in {traced.per_step * replicas, traced.per_step * replicas * context}:
        return None, []
    ran = _job_tokens(traced, stated, replicas, context)
    seen = f"the traces look up {traced.per_step:,} tokens a step on a data-parallel rank"
    shape = " x ".join(str(size) for size in traced.indices)
    text = (
        f"{stated.batch_size:,} sequences of {stated.seq_len:,} are stated, {seen} "
        f"({traced.calls} of {shape}), {ran.per_step:,} on all {replicas}: these are taken"
    )
    return ran, [Reason("card_conflict", text)]


def _job_tokens(traced: TracedTokens, stated: Tokens, replicas: int, context: int) -> Tokens:
    """Tokens of the job; sequences as long as the look-ups, or as stated where these divide it."""
    tokens = traced.per_step * replicas * context
    length = stated.seq_len if tokens % stated.seq_len == 0 else tokens
    if traced.length is not None and traced.length * context != stated.seq_len:
        length = traced.length * context
    return Tokens(tokens // length, length)


def _context(view: View) -> int:
    full = view.degrees.completed(view.world_size)
    return (full.cp if full is not None else view.degrees.cp) or 1


def traced_tokens(view: View) -> TracedTokens | None:
    """Return the tokens of a step that the traces show.

    None where shapes or look-ups are not recorded, and where they are ambiguous: steps, ranks or
    look-ups in the largest table that differ from each other.
    """
    found: dict[tuple[int, _Indices, int], list[str]] = {}
    for rank in view.ranks:
        of_steps = set(_steps(rank))
        if None in of_steps or len(of_steps) > 1:
            return None
        for one in of_steps:
            if one is not None:
                found.setdefault(one, []).append(rank.label)
    if len(found) != 1:
        return None
    ((tokens, indices, calls), labels) = next(iter(found.items()))
    return TracedTokens(tokens, indices, calls, tuple(labels))


def _steps(rank: RankView) -> Iterator[tuple[int, _Indices, int] | None]:
    """Tokens, shape and number of look-ups of each step of a rank that has any; None if unclear."""
    events = rank.trace.group("cpu_ops")
    name = rank.trace.strings.find(_OPERATOR)
    if name < 0 or not len(events.shapes) or not rank.by_steps:
        return
    rows = np.flatnonzero((events.name == name) & (events.shapes >= 0))
    starts = events.start_ns[rows]
    shapes = {code: _look_up(rank.trace.text(code)) for code in set(events.shapes[rows].tolist())}
    for step in rank.steps:
        inside = rows[(starts >= step.start_ns) & (starts < step.end_ns)]
        codes = Counter(events.shapes[inside].tolist())
        if codes:
            yield _of_step({code: (shapes[code], count) for code, count in codes.items()})


def _of_step(
    calls: dict[int, tuple[tuple[_Indices, _Indices] | None, int]],
) -> tuple[int, _Indices, int] | None:
    """Tokens of one step: of the table whose look-ups have most indices, as positions may be few.

    A table that is looked up with different shapes is ambiguous: encoder and decoder, or the
    prompts of different lengths of a batch.
    """
    by_table: dict[_Indices, list[tuple[_Indices, int]]] = {}
    for known, count in calls.values():
        if known is None:
            return None
        table, indices = known
        by_table.setdefault(table, []).append((indices, count))
    sums = {
        table: sum(math.prod(indices) * count for indices, count in made)
        for table, made in by_table.items()
    }
    table = max(sums, key=lambda one: (sums[one], len(by_table[one][0][0]), one))
    if len(by_table[table]) > 1:
        return None
    indices, count = by_table[table][0]
    return (sums[table], indices, count) if sums[table] else None


def _look_up(text: str) -> tuple[_Indices, _Indices] | None:
    """Shapes of table and indices of a look-up, None where they are no such shapes."""
    try:
        dims: Any = json.loads(text)
        table, indices = (tuple(map(_size, dims[index])) for index in (0, 1))
    except (ValueError, TypeError, LookupError):
        return None
    return (table, indices) if len(table) == 2 and 1 <= len(indices) <= 2 else None


def _size(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value
