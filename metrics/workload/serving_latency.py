"""Request latencies of serving benchmarks, with one or more experiments per result file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ccltui.metrics.arrays.statistics import Distribution, distribution
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import require_traces, side_answer
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.side import SERVING_RESULTS

if TYPE_CHECKING:
    from ccltui.metrics.result import MetricDefinition
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.side.result_files import Experiment

FILE_OVERRIDE: Final = "result_file"
_STATISTICS: Final = ("mean", "p50", "p90", "p95", "p99")


class Run(Struct, frozen=True):
    """An experiment, named after its file."""

    name: str
    experiment: Experiment

    def of(self, quantity: str) -> Distribution | None:
        """Return the distribution of a quantity: of samples, else as reported, else None."""
        samples = self.experiment.samples(quantity)
        if samples is not None and len(samples):
            return distribution(samples.tolist())
        reported = self.experiment.reported.get(quantity)
        if not reported or all(name not in reported for name in _STATISTICS):
            return None
        count = self.experiment.num_requests if quantity == "ttft" else None
        return {**{name: reported.get(name) for name in _STATISTICS}, "n": count}

    def aggregation(self, quantity: str) -> str:
        """Return the origin of that distribution."""
        samples = self.experiment.samples(quantity)
        sampled = samples is not None and len(samples) > 0
        return "per_request" if sampled else "reported_summary"


def latency(
    view: View, metric: MetricDefinition, quantity: str, extra: tuple[str, ...] = ()
) -> Result:
    """Return the result of a latency metric: the value of one experiment, and a list of all.

    Args:
        view: the job beside which the result files were found.
        metric: the metric.
        quantity: quantity of the headline, such as "ttft".
        extra: further quantities to list.

    Raises:
        Refusal: the card is of training, or no experiment has the quantity.
    """
    if view.card.text("phase") == "training":
        text = f"{metric.name} measures inference, and the card states phase training"
        raise refuse("phase_mismatch", text)
    runs, reasons = serving_runs(view)
    known = [run for run in runs if run.of(quantity) is not None]
    if not known:
        raise _nothing(view, metric, runs, reasons)
    leading = _leading(view, known)
    names = (quantity, *extra)
    found = {f"{name}_ms": leading.of(name) for name in names}
    details: dict[str, Any] = {
        **found,
        metric.headline: typical(found[f"{quantity}_ms"]),
        "source_file": leading.name,
        "aggregation": leading.aggregation(quantity),
        "num_failed": leading.experiment.num_failed,
        "experiments": [_row(run, names) for run in known],
    }
    basis = {
        "window": "experiment",
        "tool": leading.experiment.tool,
        metric.headline: _basis(found[f"{quantity}_ms"]),
    }
    return side_answer(
        metric,
        view,
        details,
        files=[run.name for run in known],
        basis=basis,
        reasons=reasons,
        warnings=_warnings(known, leading),
    )


def serving_runs(view: View) -> tuple[list[Run], list[Reason]]:
    """Return all experiments in order of file names, and reasons for unreadable files."""
    from ccltui.parsers.side.result_files import names_of, read_serving  # noqa: PLC0415 - few have any

    runs: list[Run] = []
    reasons: list[Reason] = []
    for file in view.job.discovery.files_of(SERVING_RESULTS):
        try:
            with contained(file.path):
                experiments = read_serving(Path(file.real_path), shown=file.path)
        except TraceError as error:
            reasons.append(Reason("no_side_file", str(error), file=file.path))
            continue
        names = names_of(experiments, file.path)
        runs += [Run(name, one) for name, one in zip(names, experiments, strict=True)]
    return runs, reasons


def _nothing(
    view: View, metric: MetricDefinition, runs: list[Run], reasons: list[Reason]
) -> Exception:
    if not view.job.ranks and not view.job.discovery.files:
        require_traces(view)
    failed = next((run for run in runs if run.experiment.num_failed), None)
    if failed is not None:
        number = failed.experiment.num_failed
        return refuse("no_side_file", f"{failed.name}: all {number:,} requests failed")
    unread = f" ({'; '.join(reason.message for reason in reasons)})" if reasons else ""
    return refuse(
        "no_side_file",
        f"no result file of vLLM, SGLang, genai-perf or AIPerf tells {metric.name}{unread}; "
        "traces alone only give trace_proxy_latency",
    )


def _leading(view: View, runs: list[Run]) -> Run:
    """Experiment of the value: the one that the user selects, else the first by name."""
    wanted = view.card.text(FILE_OVERRIDE)
    if not wanted:
        return runs[0]
    fitting = [run for run in runs if run.name == wanted or run.name.endswith(f"/{wanted}")]
    if not fitting:
        names = ", ".join(run.name for run in runs[:8])
        raise refuse("no_side_file", f"no result file {wanted!r}; there are {names}")
    return fitting[0]


def typical(found: Distribution | None) -> float | None:
    """Return the median, else the mean where only that is reported."""
    if found is None:
        return None
    return found["mean"] if found["p50"] is None else found["p50"]


def _basis(found: Distribution | None) -> str:
    has_median = found is not None and found["p50"] is not None
    return "median of requests" if has_median else "the mean: no median is reported"


def _row(run: Run, names: tuple[str, ...]) -> dict[str, Any]:
    return {
        "source_file": run.name,
        "tool": run.experiment.tool,
        "aggregation": run.aggregation(names[0]),
        "num_failed": run.experiment.num_failed,
        **{f"{name}_ms": run.of(name) for name in names},
    }


def _warnings(runs: list[Run], leading: Run) -> list[str]:
    warnings = [note.message for note in leading.experiment.notes]
    if len(runs) > 1:
        warnings.append(
            f"{len(runs)} experiments, which are never averaged: the value is that of "
            f"{leading.name}; {FILE_OVERRIDE} chooses another"
        )
    if leading.experiment.num_failed:
        warnings.append(f"{leading.experiment.num_failed} failed requests are left out")
    return warnings
