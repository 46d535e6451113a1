"""Training tokens per second from the workload card and the step times.

Where no card states the tokens of a step, the shapes of embedding look-ups in the traces tell them:
``aten::embedding`` has its table and the indices as inputs. A language model looks up every token
once, in the forward pass, whatever the number of micro-batches: the sizes of its indices in a step
add up to the tokens of one data-parallel rank. Tensor parallelism repeats them on each of its
ranks, pipeline parallelism leaves them to the first stage, context parallelism divides them.

An execution trace alone contains the times at which its observer began and ended. The steps took
that long in total, the observer's own work included.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.statistics import median, ratio
from ccltui.metrics.card.effective_config import BATCHES
from ccltui.metrics.result import Reason
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.config_conflicts import degree_conflicts, rate_conflict
from ccltui.metrics.view.provenance import require_traces
from ccltui.metrics.workload.job_steps import StepTimes, step_times, warnings_of_markers
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.kineto import EXECUTION_TRACE

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.kineto.execution_trace import ExecutionTrace


_MARKED: Final = "length of the step markers that the execution traces were merged with"
_OBSERVED: Final = (
    "time from begin to end of the execution trace over its steps: no node has a time, and the "
    "observer's own work counts"
)


class ExecutionTimes(Struct, frozen=True):
    """Step times of the execution traces; ``slowest_ns`` is the maximum over files of each step."""

    slowest_ns: tuple[int, ...]
    files: tuple[str, ...]
    basis: str
    reasons: tuple[Reason, ...]


def has_only_execution_traces(view: View) -> bool:
    """Return whether the job has execution traces and no trace with times."""
    return not view.job.ranks and bool(view.job.discovery.files_of(EXECUTION_TRACE))


def execution_times(view: View) -> ExecutionTimes:
    """Return the step times of all execution traces.

    Raises:
        Refusal: no trace can be read, marks a step or contains a time.
    """
    traces, reasons = _read(view)
    marked = [trace for trace in traces if trace.steps]
    if not marked:
        if reasons and not traces:
            raise refuse("no_trace", "; ".join(reason.message for reason in reasons))
        raise refuse("no_step_markers", "no ProfilerStep in any execution trace")
    numbers = set.intersection(*({s.number for s in trace.steps} for trace in marked))
    timed = all(s.dur_us > 0 for trace in marked for s in trace.steps if s.number in numbers)
    if not numbers:
        raise refuse("no_step_markers", "no step is marked in all execution traces")
    slowest = _timed(marked, numbers) if timed else _observed(marked, len(numbers))
    text = "no Kineto trace: steps and times are those of execution traces"
    return ExecutionTimes(
        slowest_ns=slowest,
        files=tuple(trace.path for trace in marked),
        basis=_MARKED if timed else _OBSERVED,
        reasons=(Reason("no_trace", text), *reasons),
    )


def _read(view: View) -> tuple[list[ExecutionTrace], list[Reason]]:
    from ccltui.parsers.kineto.execution_trace import read_execution_trace  # noqa: PLC0415 - few have any

    traces, reasons = [], []
    for file in view.job.discovery.files_of(EXECUTION_TRACE):
        try:
            with contained(file.path):
                traces.append(read_execution_trace(Path(file.real_path), shown=file.path))
        except TraceError as error:
            reasons.append(Reason("no_trace", str(error), file=file.path))
    return traces, reasons


def _timed(traces: Sequence[ExecutionTrace], numbers: set[int]) -> tuple[int, ...]:
    """Length of each step that all traces have, on the slowest rank."""
    return tuple(
        max(round(s.dur_us * 1000) for trace in traces for s in trace.steps if s.number == number)
        for number in sorted(numbers)
    )


def _observed(traces: Sequence[ExecutionTrace], count: int) -> tuple[int, ...]:
    """Mean step length of the slowest rank, repeated for each step."""
    spans = [
        (trace.finish_ms - trace.start_ms) * 1_000_000 / len(trace.steps)
        for trace in traces
        if 0 <= trace.start_ms < trace.finish_ms
    ]
    if not spans:
        raise refuse("no_step_markers", "execution traces without times: no step has a length")
    return (round(max(spans)),) * count


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


_SCOPES: Final = {"global": "global", "local": "local", "per_rank": "local", "per_device": "local"}
_FIELDS: Final = (
    "batch_size",
    "batch_size_scope",
    "seq_len",
    "dp_replicate",
    "dp_shard",
    "gradient_accumulation",
)


class TokenRate(Struct, frozen=True):
    """Tokens per second of a training job, and the numbers it is computed from.

    ``tokens_per_s`` is by the median step, ``tokens_per_s_total`` by all steps together.
    ``batch_size`` is the global batch, and ``replicas`` the number of data-parallel ranks, None
    where it is unknown. ``files`` are the execution traces that the step times come from, empty
    where they come from step markers.
    """

    tokens_per_s: float | None
    tokens_per_s_total: float | None
    tokens_per_step: int
    step_time_s: float
    step_times_ns: Sequence[int]
    batch_size: int
    seq_len: int
    batch_size_scope: str
    replicas: int | None
    provenance: Mapping[str, str]
    basis: Mapping[str, str]
    files: Sequence[str]
    reasons: Sequence[Reason]
    warnings: Sequence[str]


def token_rate(view: View) -> TokenRate:
    """Tokens of a step over the median step time.

    Raises:
        Refusal: The card does not state the batch, or no step is marked.
    """
    executed = has_only_execution_traces(view)
    if not executed:
        require_traces(view)
    batch, seq_len = _stated(view)
    scope, warnings = _scope(view)
    replicas = data_parallel(view)
    accumulation = view.card.count("gradient_accumulation") or 1
    if scope == "local":
        batch *= (replicas or 1) * accumulation
    stated = Tokens(batch, seq_len)
    ran, contradicting = tokens_that_ran(view, stated, replicas)
    tokens = ran or stated
    times: ExecutionTimes | StepTimes
    if executed:
        times = execution_times(view)
    else:
        times = step_times(view)
        warnings = [*warnings, *warnings_of_markers(view, times)]
    step_time = median([ns / 1e9 for ns in times.slowest_ns]) or 0.0
    tokens_per_s = ratio(tokens.per_step, step_time)
    basis = _basis(view, scope, accumulation)
    provenance = {**view.card.provenance(*_FIELDS), "step_time_s": "trace"}
    if ran is not None:
        basis["batch_size"] = "look-ups of embeddings in the traces"
        provenance |= {"batch_size": "trace", "seq_len": "trace"}
    if isinstance(times, ExecutionTimes):
        basis["duration"] = times.basis
    measured_s = sum(times.slowest_ns) / 1e9
    return TokenRate(
        tokens_per_s=tokens_per_s,
        tokens_per_s_total=ratio(tokens.per_step * len(times.slowest_ns), measured_s),
        tokens_per_step=tokens.per_step,
        step_time_s=step_time,
        step_times_ns=times.slowest_ns,
        batch_size=tokens.batch_size,
        seq_len=tokens.seq_len,
        batch_size_scope=scope,
        replicas=replicas,
        provenance=provenance,
        basis=basis,
        files=times.files if isinstance(times, ExecutionTimes) else (),
        reasons=[
            *times.reasons,
            *degree_conflicts(view, BATCHES),
            *contradicting,
            *rate_conflict(view, tokens_per_s),
        ],
        warnings=warnings,
    )


def _stated(view: View) -> tuple[int, int]:
    """Batch size and sequence length as stated; neither has a default."""
    card = view.card
    phase = card.text("phase")
    if phase in ("inference", "serving"):
        text = f"it measures training, and the card states phase {phase}"
        raise refuse("phase_mismatch", text)
    batch, seq_len = card.count("batch_size"), card.count("seq_len")
    if batch is not None and seq_len is not None:
        return batch, seq_len
    missing = [
        name for name, value in (("batch_size", batch), ("seq_len", seq_len)) if value is None
    ]
    raise card.lacking(missing)


def _scope(view: View) -> tuple[str, list[str]]:
    """Scope of the batch size, "global" or "local" (per data-parallel rank), and warnings."""
    stated = view.card.text("batch_size_scope").lower()
    if stated in _SCOPES:
        if _SCOPES[stated] == "local":
            _require_data_parallel(view)
        return _SCOPES[stated], []
    replicas = data_parallel(view)
    if replicas == 1:
        return "local", []
    if "titan" in view.card.text("framework").lower():
        _require_data_parallel(view)
        return "local", [
            "the card does not state whose batch size it is; TorchTitan cards have the local one"
        ]
    degree = "unknown" if replicas is None else replicas
    raise refuse(
        "ambiguous_batch_scope",
        f"batch_size may be of the job or of one of its data-parallel ranks ({degree}): "
        "state batch_size_scope",
    )


def _require_data_parallel(view: View) -> None:
    if data_parallel(view) is None:
        raise refuse(
            "card_incomplete",
            "a local batch size needs dp_replicate and dp_shard, and the card states neither",
        )


def data_parallel(view: View) -> int | None:
    """Number of data-parallel ranks, dp_replicate * dp_shard; None where the card states neither.

    Where one of the two is not stated, it is the world size divided by the other degrees.
    """
    degrees = view.degrees
    full = degrees.completed(view.world_size)
    if full is not None:
        return (full.dp_replicate or 1) * (full.dp_shard or 1)
    stated = [d for d in (degrees.dp_replicate, degrees.dp_shard) if d is not None and d > 0]
    if not stated:
        return 1 if view.world_size == 1 else None
    return stated[0] * (stated[1] if len(stated) > 1 else 1)


def _basis(view: View, scope: str, accumulation: int) -> dict[str, str]:
    stated = view.card.origin("gradient_accumulation") is not None
    basis = {
        "step_time": "median over steps of the maximum over ranks",
        "batch_size": "as stated" if scope == "global" else "local, times the data-parallel ranks",
    }
    if scope == "local":
        basis["gradient_accumulation"] = str(accumulation) if stated else "1, none is stated"
    return basis
