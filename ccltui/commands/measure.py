"""Compute metrics of a trace directory for the commands that print them."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from ccltui import exit_codes
from ccltui.commands.loading import LoadedJob, LoadOptions, load_job
from ccltui.index import STATE_FOLDER
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import merged_reasons
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError, TraceError
from ccltui.parsers.machine_limits import (
    LARGEST,
    keep_all_freed,
    keep_freed,
    resident_memory,
    trim_heap,
)
from ccltui.parsers.safe_text import listed
from ccltui.parsers.store.cache_place import default_cache_dir
from ccltui.report.json_document import TraceSummary
from ccltui.report.output import print_message, print_traceback
from ccltui.report.progress import ComputingLine

if TYPE_CHECKING:
    from ccltui.index.saved_results import SavedResults
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.job import Job

ALL_METRICS = "all"


class Measured(Struct, frozen=True):
    """Results of metrics for one trace directory.

    Attributes:
        trace: Summary of the opened traces.
        results: Metrics with their results, in the requested order.
        problem: Reason why nothing could be opened.
        required: Metrics that were named on the command line; None: all of the results. Metrics
            included by ``all`` are not required: these traces may not provide them.
        broken: A file was not read because of an internal error of its reader.
        view: The job under the selection, None where nothing could be opened.
    """

    trace: TraceSummary
    results: tuple[tuple[Metric, Result], ...]
    problem: str | None = None
    required: frozenset[str] | None = None
    broken: bool = False
    view: View | None = None

    @property
    def exit_status(self) -> int:
        """Exit status of the results alone, gates aside."""
        if not self.trace.complete:
            return exit_codes.INTERRUPTED
        refused = {m.name: r.reason for m, r in self.results if r.status == "unavailable"}
        broken = self.broken or "internal_error" in refused.values()
        if self.problem is not None or broken or self.trace.num_lost:
            return exit_codes.INPUT
        absent = {m.name for m, r in self.results if r.status != "ok" and not has_number(m, r)}
        missing = absent if self.required is None else absent & self.required
        nothing = len(refused) == len(self.results)
        return exit_codes.REFUSED if missing or nothing else exit_codes.OK

    def print_messages(self, *, warnings: bool) -> None:
        """Print on standard error which numbers are partial or missing, and why.

        With ``warnings`` also the warnings of the results.
        """
        if self.problem is not None:
            print_message(self.problem)
            return
        if warnings:
            warned = [(text, r.metric) for _, r in self.results for text in r.warnings]
            for text, names in _by_text(warned).items():
                print_message(text if len(names) > 1 else f"{names[0]}: {text}")
        for status, has_value, singular, plural in _STATES:
            found = [
                ("; ".join(self._untold(result, has_value=has_value)), result.metric)
                for metric, result in self.results
                if result.status == status and has_number(metric, result) is has_value
            ]
            for why, names in _by_text(pair for pair in found if pair[0]).items():
                print_message(f"{listed(names)} {singular if len(names) == 1 else plural}: {why}")

    def _untold(self, result: Result, *, has_value: bool) -> list[str]:
        """Reasons of a result; of one with a value without those that follow from unread files.

        Each of these files has a line of its own.
        """
        errors = [error for _, error in self.trace.failures] if has_value else []
        return [
            message
            for code, message in merged_reasons(result.reasons)
            if not errors
            or (code != "missing_ranks" and not any(error in message for error in errors))
        ]


def has_number(metric: Metric, result: Result) -> bool:
    """Return whether a result has its value, or one of the shares that the value consists of."""
    parts = result.details.get(metric.parts) if metric.parts else None
    shares = parts.values() if isinstance(parts, Mapping) else ()
    return result.value is not None or any(share is not None for share in shares)


_STATES: Final = (
    ("partial", True, "is partial", "are partial"),
    ("unavailable", False, "is unavailable", "are unavailable"),
    ("partial", False, "has no value", "have no value"),
)
"""Status, whether there is a value, and how standard error states it of one and of several."""


def _by_text(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Names of metrics by message, so that a message about the whole job is printed once."""
    found: dict[str, list[str]] = {}
    for text, metric in pairs:
        found.setdefault(text, []).append(metric)
    return found


def choose_metrics(names: Iterable[str]) -> tuple[Metric, ...]:
    """Return the metrics of ``names`` (or aliases), each once, in that order.

    ``all`` is every metric but the tables that are computed by name only.
    Raises GrammarError for an unknown name, with similar names and the list.
    """
    from ccltui.metrics import registry  # noqa: PLC0415

    chosen: dict[str, Metric] = {}
    for name in names:
        if name == ALL_METRICS:
            found = [metric for metric in registry.metrics().values() if metric.in_all]
            for one in registry.broken():
                if one.distribution:  # those of files are reported where the files are read
                    print_message(one.text)
        else:
            found = [find_metric(name)]
        chosen.update((metric.name, metric) for metric in found)
    return tuple(chosen.values())


def required_of(names: Sequence[str]) -> frozenset[str] | None:
    """Metrics that ``names`` lists beside ``all``; None if ``all`` is not among them."""
    if ALL_METRICS not in names:
        return None
    return frozenset(find_metric(name).name for name in names if name != ALL_METRICS)


def find_metric(name: str) -> Metric:
    """Return the metric of a name or alias. Raises GrammarError with similar names and the list."""
    from ccltui.metrics import registry  # noqa: PLC0415

    try:
        return registry.find(name)
    except KeyError as error:
        raise GrammarError(str(error)) from None


def check_overrides(names: Collection[str], chosen: Collection[Metric] = ()) -> None:
    """Check that names are fields of the card or parameters of a metric.

    A parameter that none of the ``chosen`` metrics reads is reported on standard error.
    Raises GrammarError with similar names.
    """
    if not names:  # the check would import all metrics
        return
    from ccltui.metrics import registry  # noqa: PLC0415
    from ccltui.parsers.side.workload_card import FIELDS  # noqa: PLC0415

    known = set(FIELDS).union(*(metric.parameters for metric in registry.metrics().values()))
    for name in names:
        if name not in known:
            from difflib import get_close_matches  # noqa: PLC0415  (for the message alone)

            near = get_close_matches(name, known, n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise GrammarError(
                f"--set {name}: no field of a workload card and no parameter of a metric{hint}"
            )
        readers = [m.name for m in registry.metrics().values() if name in m.parameters]
        if chosen and name not in FIELDS and not {m.name for m in chosen} & set(readers):
            print_message(
                f"--set {name} has no effect here: only {listed(readers)} "
                f"{'reads' if len(readers) == 1 else 'read'} it"
            )


def measure(
    metrics: Sequence[Metric],
    loading: LoadOptions,
    selection: ViewOptions,
    *,
    debug: bool = False,
) -> Measured:
    """Load a job and compute ``metrics``; problems are printed on standard error.

    Where nothing can be opened every result is unavailable with the reason ``no_trace``.
    Raises GrammarError for an invalid rank map or selection.
    """
    keep_freed(LARGEST)  # metrics repeatedly allocate and free arrays as large as a rank
    try:
        loaded = load_job(loading)
    except GrammarError:
        raise
    except (TraceError, OSError) as error:
        return nothing_opened(metrics, loading.path, str(error))
    return measure_loaded(loaded, metrics, loading, selection, debug=debug)


def measure_loaded(
    loaded: LoadedJob,
    metrics: Sequence[Metric],
    loading: LoadOptions,
    selection: ViewOptions,
    *,
    debug: bool = False,
) -> Measured:
    """Compute ``metrics`` of a loaded job; problems are printed on standard error."""
    trace = TraceSummary.of(loaded.job, complete=loaded.complete)
    for failure in loaded.job.failures:
        print_message(failure.error)
        if debug and failure.defect:
            sys.stderr.write(failure.defect)
    if loading.iteration is None and loading.capture is None:
        print_captures(loaded.job)
    view = view_of(loaded, selection)
    if view.facts.is_large:
        keep_all_freed()  # numbers of all rows take more than `keep_freed` keeps
    results = _results(metrics, view, loading, debug=debug)
    if not loaded.complete:
        print_message(_stopped_text(loaded))
        results = ((metric, _stopped(result, loaded)) for metric, result in results)
    broken = any(failure.defect for failure in loaded.job.failures)
    measured = Measured(trace, tuple(results), broken=broken, view=view)
    return structs.replace(measured, problem=_nothing_read(measured))


def _results(
    metrics: Sequence[Metric], view: View, loading: LoadOptions, *, debug: bool
) -> Iterator[tuple[Metric, Result]]:
    """Yield the results in turn, those of an indexed job from its store.

    Above the memory that is allowed intermediates are freed after each.
    """
    from ccltui.metrics.metric import expect  # noqa: PLC0415  (as `view_of`)

    memory_bytes = loading.memory_bytes
    saved = _saved_results(view, loading)
    known = {
        one.name: None if saved is None or one.origin else saved.load(one.name) for one in metrics
    }
    missing = [one for one in metrics if known[one.name] is None]
    with contextlib.closing(ComputingLine(sys.stderr)) as line:
        for done, metric in enumerate(metrics):
            result = known[metric.name]
            if result is None:
                line.show(metric.name, done, len(metrics))
                expect(view, missing)
                missing.remove(metric)
                result = _run(metric, view, debug=debug)
            yield metric, result
            if memory_bytes is not None and (resident_memory() or 0) > memory_bytes:
                view.release()
                trim_heap()


def _saved_results(view: View, loading: LoadOptions) -> SavedResults | None:
    """Return what `ccltui index` computed of this view, None where it cannot have."""
    store = loading.cache_dir or default_cache_dir()
    if loading.no_cache or not (store / STATE_FOLDER).is_dir():
        return None
    from ccltui.index.saved_results import SavedResults  # noqa: PLC0415  (indexed jobs alone)

    return SavedResults.of(view, store)


def print_captures(job: Job) -> None:
    """Print which of several captures was opened by default."""
    others = [one.name for one in job.discovery.captures if one.name != job.capture.name]
    others = [f"{one} (the files of the folder itself)" if one == "." else one for one in others]
    if others:
        print_message(
            f"opened {job.capture.name}; --capture opens another of the captures: {listed(others)}"
        )


def view_of(loaded: LoadedJob, selection: ViewOptions) -> View:
    """View of a loaded job, shared by all metrics of a command."""
    from ccltui.metrics.view.job_view import View  # noqa: PLC0415  (numpy)

    return View(loaded.job, selection)


def nothing_opened(metrics: Sequence[Metric], path: str, problem: str) -> Measured:
    """Results of a path of which nothing could be opened, for the reason ``problem``."""
    results = tuple((m, m.unavailable(Reason("no_trace", problem))) for m in metrics)
    return Measured(TraceSummary(path), results, problem)


def _nothing_read(measured: Measured) -> str | None:
    """Reason why no trace was read; None if one was, or if metrics used other files.

    Execution traces alone give throughput: it names the absent Kineto traces as a reason, and has a
    value all the same.
    """
    used_others = any(result.value is not None for _, result in measured.results)
    if measured.trace.ranks or (used_others and not measured.trace.failures):
        return None
    reasons = [reason for _, result in measured.results for reason in result.reasons]
    return next((reason.message for reason in reasons if reason.code == "no_trace"), None)


_KEEPS_NS: Final = 20_000
"""CPU time of a metric for each rank from which ranks may keep much of it. Reading one column of
10,000 events takes as long. Freeing what a rank keeps takes half of it, after each metric."""


def _run(metric: Metric, view: View, *, debug: bool) -> Result:
    """Result of a metric; with ``debug`` the traceback of an internal error is printed."""
    begun_ns = time.process_time_ns()
    result = metric.run(view)
    if debug and result.reason == "internal_error":
        try:
            metric.compute(view)
        except Exception:
            print_traceback()
    if view.facts.is_large and time.process_time_ns() - begun_ns > _KEEPS_NS * len(view.ranks):
        view.forget_intervals()
    return result


def _stopped(result: Result, loaded: LoadedJob) -> Result:
    """Result marked as computed from the ranks that were loaded before ctrl+c."""
    text = _stopped_text(loaded)
    if result.status == "unavailable":
        return structs.replace(result, warnings=(*result.warnings, text))
    reasons = (*result.reasons, Reason("missing_ranks", text))
    return structs.replace(result, status="partial", reasons=reasons)


def _stopped_text(loaded: LoadedJob) -> str:
    labels = listed([trace.label for trace in loaded.job.ranks]) or "none"
    files = f"{len(loaded.job.read_paths)} of {len(loaded.job.capture.files)} files"
    return f"stopped after {files}; loaded ranks: {labels}"
