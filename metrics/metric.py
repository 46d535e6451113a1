"""The type of a metric, the decorator that defines one, and when its results are partial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field, structs

from ccltui.metrics.facts import of_metric
from ccltui.metrics.result import Code, Reason, Result
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.data_quality import refusal_reasons
from ccltui.metrics.view.provenance import inputs_of, require_traces
from ccltui.parsers.errors import DamagedColumnsError, internal_error
from ccltui.parsers.plug_ins import reason_of

if TYPE_CHECKING:
    from pathlib import Path

    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.metrics.view.view_options import Span
    from ccltui.parsers.job import ProfileMode
    from ccltui.parsers.window import Window


PER_RANK: Final = "per_rank"
"""The key of the details with a table by label of the measured ranks."""
NUM_RANKS: Final = "num_ranks"
"""The key of the details with the number of measured ranks, where they are not listed."""


def covered(result: Result, view: View, *, lists_measured: bool) -> Result:
    """Return the result, with status partial where it covers fewer ranks than the view.

    Args:
        result: A result of any status; an unavailable one is returned as it is.
        view: The view with all selected ranks.
        lists_measured: Whether the table of ranks has every rank that was measured.
    """
    if result.status == "unavailable":
        return result
    reasons = _left_out(result, view.ranks, lists_measured=lists_measured)
    if not reasons:
        return result
    every = (*result.reasons, *reasons)
    return structs.replace(result, status="partial", reasons=every)


def _left_out(result: Result, ranks: Sequence[RankView], *, lists_measured: bool) -> list[Reason]:
    measured = _measured(result.details, lists_measured=lists_measured)
    if measured is None or isinstance(measured, int):
        return _too_few(result, measured, len(ranks))
    explained = measured | {reason.rank for reason in result.reasons}
    return [_reason(rank) for rank in ranks if rank.label not in explained]


def _measured(details: Mapping[str, Any], *, lists_measured: bool) -> set[str] | int | None:
    """Labels of the measured ranks, otherwise their number, None where both are unknown."""
    table, count = details.get(PER_RANK), details.get(NUM_RANKS)
    if lists_measured and isinstance(table, Mapping):
        return {label for label, row in table.items() if row is not None}
    return count if isinstance(count, int) else None


def _too_few(result: Result, count: int | None, expected: int) -> list[Reason]:
    if count is None or count >= expected or any(reason.rank for reason in result.reasons):
        return []
    return [Reason("missing_ranks", f"{count} of {expected} ranks are measured")]


def _reason(rank: RankView) -> Reason:
    code, why = _why(rank)
    return Reason(code, f"rank {rank.label} is not measured: {why}", rank=rank.label)


def _why(rank: RankView) -> tuple[Code, str]:
    if rank.is_empty:
        return "window_empty", "it has no event in the measured time"
    if rank.facts.has_wrong_clock:
        return "device_times", "the clock of its device is wrong"
    if not rank.facts.has_device:
        return "no_gpu_events", "it has no event of a device"
    if not rank.steps:
        return "no_step_markers", "it has no step in the measured time"
    return "missing_ranks", "it has no data for this metric"


_CATALOG = "ccltui.metrics.catalog."


class Metric(Struct, frozen=True):
    """A named quantity and the function that computes it from a view of a job.

    Attributes:
        name: The name on the command line and in documents.
        unit: Unit of the value.
        definition: One sentence: the quantity, its unit and its denominator.
        needs: Required input in plain words: "GPU kernels", "step markers", "workload card".
        facts: Facts that it asks the view for (`ccltui.metrics.facts`); those that they need, and
            ``steps``, which every result states, are not named.
        keys: Top-level keys of the details; all are null when the metric is unavailable.
        headline: The key whose value is the value of the result.
        compute: The function. It raises Refusal where the metric is unavailable.
        aliases: Further names that `registry.find` accepts.
        label: Short title for tables; derived from the name where empty.
        higher_is_better: None where neither direction is better.
        category: Heading in a table of many metrics: "time", "communication", …
        needs_traces: False where side files alone can answer.
        parameters: Overrides that the metric accepts, with their meanings.
        lists_measured: False where the table ``per_rank`` may omit ranks that were measured.
        parts: The key with the shares that the value consists of, by name, for tables that show
            nothing else of the metric; "" where it is no sum of named parts.
        in_all: False for a table that is computed only where its name is given: ``all`` and the
            explorer's list of metrics leave it out, because it takes longer than the others.
        origin: Distribution of a metric of another package, "" of a built-in one.
        sums: Functions that it calls for each rank, and that keep few numbers of it with
            `RankView.sum_up`; see `View.expect`. Without them a metric is as right, and slower
            where a large job computes several.
    """

    name: str
    unit: str
    definition: str
    needs: tuple[str, ...]
    keys: tuple[str, ...]
    headline: str
    compute: Callable[[View], Result]
    aliases: tuple[str, ...] = ()
    label: str = ""
    higher_is_better: bool | None = None
    category: str = ""
    needs_traces: bool = True
    parameters: Mapping[str, str] = field(default_factory=dict)
    lists_measured: bool = True
    parts: str = ""
    in_all: bool = True
    origin: str = ""
    facts: tuple[str, ...] = ()
    sums: tuple[Callable[[View, RankView], object], ...] = ()

    @property
    def title(self) -> str:
        """Title of the metric on a screen."""
        return self.label or self.name.replace("_", " ")

    @property
    def display(self) -> Mapping[str, str | bool | None]:
        """Label, unit, direction and category for a table of many metrics."""
        return {
            "label": self.title,
            "unit": self.unit,
            "higher_is_better": self.higher_is_better,
            "category": self.category,
        }

    def run(self, view: View) -> Result:
        """Compute the metric; a refusal or a failure becomes a result with its reason.

        The result is computed once for each view: findings quote the results of other metrics.
        The function is part of the key: an edited one under the same name is another metric.
        """
        return view.remember((Metric.run, self.name, self.compute), lambda: self._run(view))

    def _run(self, view: View) -> Result:
        try:
            if self.needs_traces:
                require_traces(view)
            with of_metric(self.name):
                result = self.compute(view)
            return covered(result, view, lists_measured=self.lists_measured)
        except Refusal as refusal:
            return self._unavailable(view, refusal_reasons(view, refusal.reasons))
        except DamagedColumnsError as error:
            return self.unavailable(Reason("damaged_trace", str(error)), inputs=_inputs(view))
        except Exception as error:
            text = internal_error(error)
            if self.origin:
                text = f"the metric plug-in {self.name} of {self.origin} failed: {reason_of(error)}"
            reason = Reason("internal_error", text)
            return self.unavailable(reason, inputs=_inputs(view))

    def unavailable(self, *reasons: Reason, inputs: Mapping[str, Any] | None = None) -> Result:
        """Return the result with status ``unavailable``: the reasons, and every key null."""
        return Result(
            metric=self.name,
            unit=self.unit,
            definition=self.definition,
            status="unavailable",
            value=None,
            details=dict.fromkeys(self.keys),
            reasons=reasons,
            inputs=inputs or {},
        )

    def _unavailable(self, view: View, reasons: Iterable[Reason]) -> Result:
        return self.unavailable(*reasons, inputs=inputs_of(view))

    def document_of(
        self,
        directory: str | Path,
        profile_mode: ProfileMode = "auto",
        *,
        window: Window | None = None,
        steps: tuple[int, int] | None = None,
        ranks: frozenset[int] | None = None,
        group: str | None = None,
        span: Span = "steps",
        raw_clocks: bool = False,
        overrides: Mapping[str, object] | None = None,
        rank_map: Mapping[str, int] | None = None,
        iteration: int | None = None,
        capture: str | None = None,
        cache_dir: Path | None = None,
        jobs: int | None = None,
    ) -> dict[str, Any]:
        """Compute the metric of a trace directory.

        Every module of the catalog exports this method as ``metric_cal``, the calling convention
        of the original metric collection.

        Args:
            directory: The trace directory.
            profile_mode: Files to read: those of torch, those of nsys, or what is found.
            window: See `ViewOptions`, as for steps, ranks, group, span, raw_clocks, overrides.
            steps: See `ViewOptions`.
            ranks: See `ViewOptions`.
            group: See `ViewOptions`.
            span: See `ViewOptions`.
            raw_clocks: See `ViewOptions`.
            overrides: See `ViewOptions`.
            rank_map: See `open_job`, as for iteration, capture, cache_dir, jobs.
            iteration: See `open_job`.
            capture: See `open_job`.
            cache_dir: See `open_job`.
            jobs: See `open_job`.

        Returns:
            The document of the result as a flat dictionary. A directory that can be read but not
            answered gives a document with ``status`` unavailable and reasons.

        Raises:
            NotFoundError: The directory does not exist.
            ValueError: The profile mode does not exist.
        """
        if profile_mode not in ("auto", "torch", "nsys"):
            raise ValueError(f"profile_mode is auto, torch or nsys, not {profile_mode!r}")
        # Imported in the call: listing metrics must not load the readers.
        from ccltui.metrics.view.job_view import View, ViewOptions  # noqa: PLC0415
        from ccltui.parsers.job import open_job  # noqa: PLC0415

        job = open_job(
            directory,
            rank_map=rank_map,
            iteration=iteration,
            capture=capture,
            cache_dir=cache_dir,
            jobs=jobs,
            profile_mode=profile_mode,
        )
        options = ViewOptions(
            window=window,
            steps=steps,
            ranks=ranks,
            group=group,
            profile_mode=profile_mode,
            raw_clocks=raw_clocks,
            overrides=overrides or {},
            span=span,
        )
        return self.run(View(job, options)).to_document()


def expect(view: View, metrics: Sequence[Metric]) -> None:
    """Tell a view of a large job the metrics that will be computed (`View.expect`)."""
    view.expect((one.name for one in metrics), (each for one in metrics for each in one.sums))


def _inputs(view: View) -> Mapping[str, Any]:
    """The inputs of a view that may be broken; {} where they cannot be computed."""
    try:
        return inputs_of(view)
    except Exception:
        return {}


class metric(Struct, frozen=True, kw_only=True):  # noqa: N801  (a decorator)
    """Make a `Metric` of the function below.

    The arguments are the attributes of `Metric`. The name is that of the function, the headline the
    first key, and the category that of the folder in the catalog, unless given.
    """

    unit: str
    definition: str
    needs: tuple[str, ...]
    keys: tuple[str, ...]
    headline: str = ""
    name: str = ""
    aliases: tuple[str, ...] = ()
    label: str = ""
    higher_is_better: bool | None = None
    category: str = ""
    needs_traces: bool = True
    parameters: Mapping[str, str] = field(default_factory=dict)
    lists_measured: bool = True
    parts: str = ""
    in_all: bool = True
    facts: tuple[str, ...] = ()
    sums: tuple[Callable[[View, RankView], object], ...] = ()

    def __call__(self, compute: Callable[[View], Result]) -> Metric:
        """Return the metric that the function computes."""
        derived = {
            "name": self.name or compute.__name__,
            "headline": self.headline or self.keys[0],
            "category": self.category or _folder_of(compute.__module__),
            "parameters": self.parameters or {},
        }
        return Metric(**{**structs.asdict(self), **derived, "compute": compute})


def _folder_of(module: str) -> str:
    """The folder of a module of the catalog, empty for a module of another package."""
    return module.removeprefix(_CATALOG).partition(".")[0] if module.startswith(_CATALOG) else ""
