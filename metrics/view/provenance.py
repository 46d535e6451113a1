"""Inputs, basis, reasons and warnings of every result, and refusals that apply to every metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ccltui.metrics.model.communicator_groups import format_ranks
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.data_quality import (
    common_reasons,
    common_warnings,
    damage,
    duplicates_of,
    failures,
    guessed_steps,
    missing_ranks,
    ranks_of,
    some_of,
    without_device_times,
)
from ccltui.parsers.discovery.discover import Discovery
from ccltui.parsers.errors import TraceError
from ccltui.parsers.formats import format_of_trace
from ccltui.parsers.found_files import found_instead
from ccltui.parsers.nsys import NSYS_TEXT
from ccltui.parsers.numbers import duration
from ccltui.parsers.window import MAX_LISTED, format_steps, ranges_text

if TYPE_CHECKING:
    from ccltui.metrics.result import MetricDefinition
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView


def lacking_of_texts(discovery: Discovery) -> str | None:
    """Return what the texts of nsys stats lack to be traces.

    None where there is no such text, or a profiler left something else.
    """
    texts = discovery.files_of(NSYS_TEXT)
    profiled = [f for f in discovery.files if f.format.profiler is not None]
    if not texts or any(file.format.reports != "text" for file in profiled):
        return None
    first = texts[0]
    more = f" and {len(texts) - 1} more" if len(texts) > 1 else ""
    return f"{first.path}{more}: {_lacking(first.real_path, first.changed_ns)}"


@lru_cache(maxsize=16)
def _lacking(path: str, _changed_ns: int) -> str:
    """Return what one text lacks; it is read once for all metrics that refuse."""
    from ccltui.parsers.nsys.stats_text import read_stats_text  # noqa: PLC0415
    from ccltui.parsers.nsys.text_trace import lacks_trace  # noqa: PLC0415  (numpy, sqlite)

    try:
        return lacks_trace(read_stats_text(Path(path)))
    except TraceError as error:
        return f"text of nsys stats that cannot be read: {error.message}"


def answer(
    metric: MetricDefinition,
    view: View,
    details: Mapping[str, Any],
    *,
    source: str | None,
    basis: Mapping[str, str] | None = None,
    reasons: Sequence[Reason] = (),
    warnings: Sequence[str] = (),
) -> Result:
    """Return the result of a metric that could be computed.

    Args:
        metric: the metric.
        view: the job it was computed from.
        details: value of each key of the metric; that of its headline is the value.
        source: family of events that the numbers come from, None where there is no single one.
        basis: how the numbers were obtained, added to the basis of the window.
        reasons: why the result is partial. Those that apply to every metric of the job (missing
            ranks, truncated files) are added; without any the status is ok.
        warnings: added before those that apply to every metric of the job.
    """
    selected = guessed_steps(view) if source == "kernel" and view.options.steps else []
    every = tuple(dict.fromkeys([*reasons, *selected, *common_reasons(view)]))
    return Result(
        metric=metric.name,
        unit=metric.unit,
        definition=metric.definition,
        status="partial" if every else "ok",
        value=details[metric.headline],
        details=details,
        reasons=every,
        warnings=(*warnings, *common_warnings(view)),
        source=_named_source(view, source),
        basis={**window_basis(view), **(basis or {})},
        inputs=inputs_of(view),
    )


def call_answer(
    metric: MetricDefinition,
    view: View,
    details: Mapping[str, Any],
    *,
    basis: Mapping[str, str],
    reasons: Sequence[Reason] = (),
    warnings: Sequence[str] = (),
) -> Result:
    """Return the result of a metric of collectives: `answer` with the source by `source_of`."""
    source, mixed = source_of(view.ranks)
    return answer(
        metric,
        view,
        details,
        source=source,
        basis=basis,
        reasons=reasons,
        warnings=[*mixed, *warnings],
    )


def profiler_of(view: View) -> str:
    """Return the profiler whose files are read: torch or nsys."""
    profilers = view.remember(profiler_of, lambda: _profilers(view))
    return "nsys" if "nsys" in profilers else "torch"


def _profilers(view: View) -> set[str | None]:
    return {format_of_trace(rank.trace).profiler for rank in view.ranks}


def _named_source(view: View, source: str | None) -> str | None:
    return f"nsys_{source}" if source == "kernel" and profiler_of(view) == "nsys" else source


def source_of(ranks: Sequence[RankView]) -> tuple[str, list[str]]:
    """Return the family of events of the collectives of most ranks, and a warning if ranks differ.

    The family is "kernel" where there is no rank.
    """
    by_source: dict[str, list[str]] = {}
    for rank in ranks:
        by_source.setdefault(rank.recorded_calls.source, []).append(rank.label)
    if len(by_source) < 2:
        return next(iter(by_source), "kernel"), []
    parts = [f"{source} on {ranks_of(labels)}" for source, labels in by_source.items()]
    usual = max(by_source, key=lambda source: len(by_source[source]))
    return usual, [f"collectives come from different events: {'; '.join(parts)}"]


def require_kernel_calls(view: View) -> None:
    """Check that the collectives of most ranks are kernels.

    Raises:
        Refusal: they are not.
    """
    if source_of(view.ranks)[0] != "kernel":
        raise without_device_times(view, "CPU-only trace: operators do not tell when data moved")


def require_traces(view: View) -> None:
    """Check that there are traces to compute from and that all options are meaningful.

    Raises:
        Refusal: no file fits the profile mode, nothing is selected, or an option is invalid.
    """
    mode = view.options.profile_mode
    profilers = {format_of_trace(trace).profiler for trace in view.job.ranks}
    if mode != "auto" and profilers and mode not in profilers:
        raise refuse(
            "mode_mismatch", f"profile mode {mode} was asked for, and {_files_of_other_mode(view)}"
        )
    if not view.job.ranks:
        if view.job.failures:
            raise Refusal(*failures(view))
        lacking = None if mode == "torch" else lacking_of_texts(view.job.discovery)
        if lacking is not None:
            raise refuse("no_trace", lacking)
        if any(f.format.profiler is not None for f in view.job.discovery.files):
            asked = "" if mode == "auto" else f"profile mode {mode} was asked for, and "
            raise refuse("mode_mismatch", f"{asked}{_files_of_other_mode(view)}")
        unreadable = [f for f in view.job.discovery.files if f.format.when_unreadable]
        if unreadable:
            paths = some_of([file.path for file in unreadable])
            text = unreadable[0].format.when_unreadable.replace("{files}", paths)
            raise refuse("mode_mismatch", text)
        found = found_instead(view.job.discovery.files)
        raise refuse("no_trace", f"no Kineto trace in {view.job.path}; found {found}")
    if not view.ranks:
        wanted = ranges_text(sorted(view.options.ranks or ()))
        here = some_of([trace.label for trace in view.job.ranks])
        known = [trace.rank for trace in view.job.ranks if trace.rank is not None]
        if len(known) == len(view.job.ranks):
            here = ranges_text(sorted(set(known)))
        raise refuse("missing_ranks", f"none of the ranks {wanted} is recorded; there are {here}")
    if all(rank.is_empty for rank in view.ranks):
        raise _nothing_selected(view)
    view.card.require_degrees()
    view.require_group()


def _files_of_other_mode(view: View) -> str:
    """Describe the trace files of the directory, none of which fits the profile mode."""
    files = [file for file in view.job.discovery.files if file.duplicate_of is None]
    kineto = [file.path for file in files if file.format.profiler == "torch"]
    nsys = [file.path for file in files if file.format.profiler == "nsys"]
    parts = [f"Kineto traces: {some_of(kineto)}"] if kineto else []
    parts += [f"nsys files: {some_of(nsys)}"] if nsys else []
    return f"there are {' and '.join(parts)}" if parts else "there are no files of it"


def _nothing_selected(view: View) -> Refusal:
    """Return the refusal for steps or a window in which no rank has an event."""
    if all(rank.trace.first_ns is None for rank in view.ranks):
        paths = some_of([rank.trace.source.path for rank in view.ranks])
        return Refusal(Reason("no_trace", f"no event with a time in {paths}"), *damage(view))
    if view.options.steps is None:
        traces = [rank.trace for rank in view.ranks]
        longest = max((trace.last_ns or 0) - (trace.first_ns or 0) for trace in traces)
        text = f"no rank has an event in the window; the longest trace takes {duration(longest)}"
        return refuse("window_empty", text)
    marked = sorted({step.id for rank in view.ranks for step in rank.facts.marked_steps[0]})
    if not marked:
        return refuse("no_step_markers", "steps were selected, but no rank marks steps")
    wanted = format_steps(view.options.steps)
    return refuse("window_empty", f"no step {wanted}; steps here: {format_ranks(marked)}")


def inputs_of(view: View) -> Mapping[str, Any]:
    """Return the inputs of a view: files, ranks, steps, card, overrides, profiler."""
    return view.remember(inputs_of, lambda: _inputs(view))


def _inputs(view: View) -> dict[str, Any]:
    traces = [rank.trace for rank in view.ranks]
    steps = sorted({step.id for rank in view.ranks for step in rank.steps})
    missing = missing_ranks(view)
    inputs: dict[str, Any] = {
        "files": list(dict.fromkeys(trace.source.path for trace in traces)),
        "ranks": [trace.label if trace.rank is None else trace.rank for trace in traces],
        "world_size": view.job.world_size,
        "missing_ranks": list(missing[:MAX_LISTED]),
        "num_missing_ranks": len(missing),
        "steps": steps,
        "profile_mode": profiler_of(view),
        "duplicates": duplicates_of(view),
    }
    backends = sorted({trace.backend for trace in traces if trace.backend})
    if backends:
        inputs["backends"] = backends
    if view.job.capture.name:
        inputs["capture"] = view.job.capture.name
    if view.job.card is not None:
        inputs["card"] = view.job.card.path
    if view.options.overrides:
        inputs["overrides"] = {k: str(v) for k, v in view.options.overrides.items()}
    return inputs


def window_basis(view: View) -> Mapping[str, str]:
    """Return how the measured time was selected, by key of the basis."""
    return view.remember(window_basis, lambda: _window_basis(view))


def _window_basis(view: View) -> dict[str, str]:
    markers = sorted({rank.marker for rank in view.ranks if rank.marker is not None})
    by_steps = [rank.by_steps for rank in view.ranks]
    basis = {"window": "step" if all(by_steps) else "mixed" if any(by_steps) else "trace"}
    if markers and any(by_steps):
        basis["step_marker"] = ", ".join(markers)
    if view.options.span == "inner":
        basis["steps"] = "inner: without the first and the last of more than two"
    if view.options.window is not None:
        clock = "raw" if view.options.raw_clocks else _clock_basis(view)
        basis["clipped"] = f"to the window, from the job's start on {clock} clocks"
    if view.options.group is not None:
        basis["group"] = view.options.group
    if view.options.ranks is not None and len(view.ranks) < len(view.job.ranks):
        basis["ranks"] = f"{len(view.ranks)} of {len(view.job.ranks)}, as selected"
    return basis


def _clock_basis(view: View) -> str:
    labels = [rank.label for rank in view.ranks]
    if len(view.job.ranks) < 2:
        return "its own"
    known = (
        view.clocks.comparable(labels) if len(labels) > 1 else view.clocks.clocks[labels[0]].known
    )
    return "corrected" if known else "partly uncorrected"


def side_answer(
    metric: MetricDefinition,
    view: View,
    details: Mapping[str, Any],
    *,
    files: Sequence[str],
    basis: Mapping[str, str],
    reasons: Sequence[Reason] = (),
    warnings: Sequence[str] = (),
) -> Result:
    """Return the result of a metric computed from side files.

    Args:
        metric: the metric.
        view: the job beside which the files were found.
        details: value of each key of the metric; that of its headline is the value.
        files: paths of the side files.
        basis: how the numbers were obtained.
        reasons: why the result is partial; reasons of the traces are not added.
        warnings: the warnings of the result.
    """
    return Result(
        metric=metric.name,
        unit=metric.unit,
        definition=metric.definition,
        status="partial" if reasons else "ok",
        value=details[metric.headline],
        details=details,
        reasons=tuple(reasons),
        warnings=tuple(warnings),
        source="side_file",
        basis=basis,
        inputs={**inputs_of(view), "side_files": list(files)},
    )
