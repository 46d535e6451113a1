"""What every result carries beside its number: inputs, basis, reasons, warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from metrics.groups import format_ranks
from metrics.refusal import Refusal, refuse
from metrics.result import Code, Reason, Result
from parsers.found import found_instead
from parsers.window import format_steps

if TYPE_CHECKING:
    from metrics.rank_view import RankView
    from metrics.registry import Metric
    from metrics.view import View
    from parsers.columns import Note, RankTrace

_MAX_NAMED = 16


def answer(
    metric: Metric,
    view: View,
    details: Mapping[str, Any],
    *,
    source: str | None,
    basis: Mapping[str, str] | None = None,
    reasons: Sequence[Reason] = (),
    warnings: Sequence[str] = (),
) -> Result:
    """The result of a metric that has one; any reason makes it partial.

    Reasons that hold for every metric of the job (missing ranks, truncated files) are added.
    """
    every = (*reasons, *common_reasons(view))
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
        inputs=view.inputs,
    )


def profiler_of(view: View) -> str:
    """Whose files answer: torch or nsys."""
    return "nsys" if any(r.trace.source.format == "nsys" for r in view.ranks) else "torch"


def _named_source(view: View, source: str | None) -> str | None:
    return f"nsys_{source}" if source == "kernel" and profiler_of(view) == "nsys" else source


def source_of(ranks: Sequence[RankView]) -> tuple[str, list[str]]:
    """The family of events that the collectives come from, and a warning if ranks differ."""
    by_source: dict[str, list[str]] = {}
    for rank in ranks:
        by_source.setdefault(rank.calls.source, []).append(rank.label)
    if len(by_source) < 2:
        return next(iter(by_source), "kernel"), []
    parts = [f"{source} on rank {_named(labels)}" for source, labels in by_source.items()]
    usual = max(by_source, key=lambda source: len(by_source[source]))
    return usual, [f"collectives come from different events: {'; '.join(parts)}"]


def require_traces(view: View) -> None:
    """Refuse where no file fits the mode, nothing is selected, or an option means nothing."""
    mode = view.options.profile_mode
    formats = {trace.source.format for trace in view.job.ranks}
    if mode != "auto" and formats and _FORMATS[mode] not in formats:
        raise refuse("mode_mismatch", f"profile mode {mode} was asked for, and {_of_other(view)}")
    if not view.job.ranks:
        if view.job.failures:
            raise Refusal(*_failures(view))
        if any(f.kind in _KINDS for f in view.job.discovery.files):
            asked = "" if mode == "auto" else f"profile mode {mode} was asked for, and "
            raise refuse("mode_mismatch", f"{asked}{_of_other(view)}")
        profiles = [f.path for f in view.job.discovery.files if f.kind == "tpu_trace"]
        if profiles:
            text = f"profiles of TPUs ({_named(profiles)}) without a trace.json.gz that is readable"
            raise refuse("mode_mismatch", text)
        found = found_instead(view.job.discovery.files)
        raise refuse("no_trace", f"no Kineto trace in {view.job.path}; found {found}")
    if not view.ranks:
        wanted = format_ranks(sorted(view.options.ranks or ()))
        here = ", ".join(trace.label for trace in view.job.ranks[:_MAX_NAMED])
        raise refuse("missing_ranks", f"none of the ranks {wanted} is here; ranks here: {here}")
    if all(rank.is_empty for rank in view.ranks):
        raise _nothing_selected(view)
    view.card.require_degrees()
    view.require_group()


_FORMATS: Final = {"torch": "kineto", "nsys": "nsys"}
_KINDS: Final = ("kineto", "nsys_sqlite", "nsys_tables", "nsys_report", "nsys_text")


def _of_other(view: View) -> str:
    """What the directory holds instead of the files that were to answer."""
    files = [f for f in view.job.discovery.files if f.kind in _KINDS and f.duplicate_of is None]
    kineto = [f.path for f in files if f.kind == "kineto"]
    nsys = [f.path for f in files if f.kind != "kineto"]
    parts = [f"Kineto traces: {_named(kineto)}"] if kineto else []
    parts += [f"nsys files: {_named(nsys)}"] if nsys else []
    return f"here are {' and '.join(parts)}" if parts else "here is nothing of it"


def _nothing_selected(view: View) -> Refusal:
    """Why no rank has anything in the steps or the window that were asked for."""
    if all(rank.trace.first_ns is None for rank in view.ranks):
        paths = _named([rank.trace.source.path for rank in view.ranks])
        return Refusal(Reason("no_trace", f"no event with a time in {paths}"), *_damage(view))
    if view.options.steps is None:
        return refuse("window_empty", "no rank has an event in the window")
    marked = sorted({step.id for rank in view.ranks for step in rank.facts.marked_steps[0]})
    if not marked:
        return refuse("no_step_markers", "steps were asked for, and no rank marks any")
    wanted = format_steps(view.options.steps)
    return refuse("window_empty", f"no step {wanted}; steps here: {format_ranks(marked)}")


def inputs_of(view: View) -> dict[str, Any]:
    """Files, ranks, steps, card and overrides that the numbers of a view rest on."""
    traces = [rank.trace for rank in view.ranks]
    steps = sorted({step.id for rank in view.ranks for step in rank.steps})
    inputs: dict[str, Any] = {
        "files": list(dict.fromkeys(trace.source.path for trace in traces)),
        "ranks": [trace.label if trace.rank is None else trace.rank for trace in traces],
        "world_size": view.job.world_size,
        "missing_ranks": missing_ranks(view),
        "steps": steps,
        "profile_mode": profiler_of(view),
        "duplicates": _duplicates(view),
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


def missing_ranks(view: View) -> list[int]:
    """Ranks that were asked for, or that the world has, without a trace."""
    missing = view.job.missing_ranks
    chosen = view.options.ranks
    if chosen is None:
        return list(missing)
    present = {trace.rank for trace in view.job.ranks}
    return sorted(rank for rank in chosen if rank not in present)


def common_reasons(view: View) -> list[Reason]:
    """What makes any number of this view cover only a part of the job."""
    reasons = _failures(view)
    missing = missing_ranks(view)
    if missing:
        present = len({rank.rank for rank in view.ranks if rank.rank is not None})
        total = present + len(missing)
        text = f"{present} of {total} ranks found; missing {_some(missing)}"
        reasons.append(Reason("missing_ranks", text))
    return [*reasons, *_unread(view), *_damage(view)]


def _unread(view: View) -> list[Reason]:
    """Ranks of which only the beginning is there, and how much of their files that is."""
    partly = [rank.trace for rank in view.ranks if rank.trace.read_share < 1]
    if not partly:
        return []
    size = sum(trace.source.size_bytes for trace in partly)
    read = sum(trace.source.size_bytes * trace.read_share for trace in partly)
    share = f"{read / max(size, 1):.1%}"
    labels = f"rank {_named([trace.label for trace in partly])}"
    text = f"{len(partly)} of {len(view.ranks)} ranks are partly read: {share} of {labels}"
    return [Reason("partly_read", text)]


def refusal_reasons(view: View, reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """Reasons of a refusal, and those of the files that what is missing may be lost in."""
    known = {reason.code for reason in reasons}
    if not known & _LOST_WITH_FILES:
        return tuple(reasons)
    lost = (*_unread(view), *_damage(view))
    return (*reasons, *(one for one in lost if one.code not in known))


_LOST_WITH_FILES: Final[frozenset[Code]] = frozenset(
    {
        "no_gpu_events",
        "no_collectives",
        "no_step_markers",
        "single_rank",
        "unmatched_collectives",
        "window_empty",
    }
)


def _damage(view: View) -> list[Reason]:
    """Files that end early, and ranks that several files claim."""
    reasons = []
    claims: dict[int, list[str]] = {}
    for rank in view.ranks:
        if rank.rank is not None:
            claims.setdefault(rank.rank, []).append(rank.trace.source.path)
        if rank.trace.truncated:
            path = rank.trace.source.path
            text = f"{path} ends early; {_where_it_ends(rank.trace)}"
            reasons.append(Reason("truncated_trace", text, rank=rank.label, file=path))
    for number, paths in claims.items():
        if len(paths) > 1:
            text = f"rank {number} is claimed by {', '.join(paths)}"
            reasons.append(Reason("rank_conflict", text, rank=str(number)))
    return reasons


def _where_it_ends(trace: RankTrace) -> str:
    cuts = [note for note in trace.notes if note.code in _CUTS]
    if not cuts:
        return "what could be read is counted"
    return cuts[0].message + (f" (byte {cuts[0].offset:,})" if cuts[0].offset is not None else "")


_CUTS: Final = frozenset({"truncated_trace", "corrupt_gzip", "corrupt_zstd", "corrupt_document"})
_HARMLESS: Final = frozenset({"repaired_event", "gpu_metrics", "open_ranges"})


def common_warnings(view: View) -> list[str]:
    """What a reader of any number of this view should know."""
    warnings = [f"{path} repeats another file and is counted once" for path in _copies(view)]
    warnings += _lost_events(view)
    warnings += [note.message for note in view.job.notes if note.code == "two_profilers"]
    warnings += _guessed_ranks(view)
    if view.card.problem is not None:
        warnings.append(f"the workload card is not used: {view.card.problem}")
    return [*warnings, *view.card_contradictions]


def _lost_events(view: View) -> list[str]:
    """What the reader dropped or had to assume, one sentence a kind."""
    found: dict[str, list[tuple[str, Note]]] = {}
    for rank in view.ranks:
        for note in rank.trace.notes:
            path, noted = rank.trace.source.path, found.setdefault(note.message, [])
            repeated = rank.trace.source.part > 0 and path in [known for known, _ in noted]
            if note.code not in _CUTS | _HARMLESS and not repeated:
                noted.append((path, note))
    return [
        f"{_named([path for path, _ in noted])}: {message} ({_how_often([n for _, n in noted])})"
        for message, noted in found.items()
        if noted
    ]


def _how_often(notes: Sequence[Note]) -> str:
    count = f"{sum(note.count for note in notes):,}×"
    if len(notes) > 1 or notes[0].offset is None:
        return count
    return f"{count}, first at byte {notes[0].offset:,}"


def _guessed_ranks(view: View) -> list[str]:
    guessed = [r.trace for r in view.ranks if r.trace.rank_source == "order of devices"]
    if not guessed:
        return _nameless_ranks(view)
    labels = _named([trace.label for trace in guessed])
    path = guessed[0].source.path
    return [f"{path} states no rank: {labels} number its devices in their order"]


def _nameless_ranks(view: View) -> list[str]:
    nameless = [rank.label for rank in view.ranks if rank.rank is None]
    if len(nameless) < 2:
        return []
    return [
        f"{len(nameless)} files state no rank ({_named(nameless)}): they are taken for ranks of "
        "one job, which a rank map can say"
    ]


def window_basis(view: View) -> dict[str, str]:
    """How the measured time was chosen."""
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
    return basis


def _clock_basis(view: View) -> str:
    labels = [rank.label for rank in view.ranks]
    if len(view.job.ranks) < 2:
        return "its own"
    known = (
        view.clocks.comparable(labels) if len(labels) > 1 else view.clocks.clocks[labels[0]].known
    )
    return "corrected" if known else "partly uncorrected"


def _failures(view: View) -> list[Reason]:
    return [
        Reason("no_trace", f"could not be read: {failure.error}", file=failure.path)
        for failure in view.job.failures
    ]


def _duplicates(view: View) -> list[str]:
    files = view.job.discovery.files
    return [f.path for f in files if f.kind == "kineto" and f.duplicate_of is not None]


def _copies(view: View) -> list[str]:
    """Duplicates that somebody made; a link to a trace is meant to be the same."""
    by_path = {file.path: file for file in view.job.discovery.files}
    return [
        path
        for path in _duplicates(view)
        if by_path[path].real_path != by_path[str(by_path[path].duplicate_of)].real_path
    ]


def _named(paths: Sequence[str]) -> str:
    more = len(paths) - 4
    return ", ".join(paths[:4]) + (f" and {more} more" if more > 0 else "")


def _some(ranks: Sequence[int]) -> str:
    if len(ranks) <= _MAX_NAMED:
        return format_ranks(ranks)
    return f"{format_ranks(ranks[:4])} … {ranks[-1]} ({len(ranks)} ranks)"
