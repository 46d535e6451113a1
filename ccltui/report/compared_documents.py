"""Types of the JSON documents of ``ccltui diff``, as those of `ccltui.report.documents`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

Version = Annotated[Literal[1], "raised when a member is removed, renamed or changes its meaning"]
RunsVary = Annotated[
    float | None,
    "spread between runs in percent that --runs-vary states; null: none",
]


class JobSide(TypedDict):
    """A job, or a part of it, that is compared."""

    name: str
    job: Annotated[str, "path"]
    num_ranks: int
    num_steps: int | None
    unavailable: Annotated[dict[str, str], "tables that could not be made, with the reason"]
    num_runs: Annotated[int, "runs of the side"]


class ComparedField(TypedDict):
    """A field that is the same where two jobs did the same work."""

    name: str
    a: str | None
    b: str | None
    required: bool
    standing: str


class RunComparability(TypedDict):
    """Whether runs did the same work."""

    verdict: str
    differences: list[str]
    stated: list[str]
    unknown: list[str]
    checks: list[ComparedField]


class JobComparability(RunComparability):
    """Whether two jobs did the same work."""

    basis: str | dict[str, Any] | list[Any] | None


class TimeChange(TypedDict):
    """A time on both sides, with the difference and its interval."""

    name: str
    a_ms: float | None
    b_ms: float | None
    delta_ms: Annotated[float | None, "B minus A"]
    delta_pct: float | None
    half_width_ms: Annotated[float | None, "of the 95 % interval"]
    change_ms: Annotated[
        float | None, "the difference beyond the noise, 0 within it, null: spread unknown"
    ]
    change_pct: float | None
    direction: Annotated[str | None, "longer, shorter, not distinguishable, …"]


class StepTime(TimeChange):
    """Time of a step, with the numbers of steps and of blocks that its interval rests on."""

    num_steps: list[int | None]
    num_blocks: list[int | None]


class WaterfallPart(TypedDict):
    """A part of the difference of the step time."""

    part: str
    kind: str
    a_ms: float | None
    b_ms: float | None
    delta_ms: float | None


class OfSides(TypedDict):
    """A count on both sides."""

    a: float | None
    b: float | None


class ExposedOfSides(OfSides):
    """Exposed time on both sides."""

    delta: float | None


class DimensionChange(TypedDict):
    """Communication of a parallel dimension on both sides."""

    dim: str
    exposed_ms: ExposedOfSides
    calls: OfSides
    message_bytes: OfSides


class WorkOfSide(TypedDict):
    """A kernel or an operator on one side."""

    calls: int
    total_ms: float
    mean_us: float | None
    imbalance_ratio: float | None
    num_ranks: int


class WorkChange(TimeChange):
    """A kernel or an operator on both sides."""

    status: Annotated[str | None, "added, gone, changed"]
    a: WorkOfSide | None
    b: WorkOfSide | None


_Class = TypedDict("_Class", {"class": str | None})


class KernelChange(WorkChange, _Class):
    """A kernel on both sides, by name and class."""


class OperatorChange(WorkChange):
    """An operator on both sides, by name and shapes."""

    shapes: str | None


class CollectiveChange(TimeChange):
    """Collectives of one size on both sides."""

    operation: str
    dim: str
    group_size: int | None
    message_bytes: int | None
    calls: OfSides


class RankChange(TimeChange):
    """Wait that a rank causes, on both sides."""

    rank: str


class MetricChange(TypedDict):
    """A metric on both sides."""

    name: Annotated[str, "name of the metric"]
    label: Annotated[str, "its name on a screen"]
    unit: str
    a: float | None
    b: float | None
    delta: Annotated[float | None, "B minus A"]
    half_width: Annotated[
        float | None,
        "half of the 95 % interval of the difference; null where the value is no mean of steps",
    ]
    direction: Annotated[
        str | None, "higher or lower beyond the interval, null within it or without one"
    ]
    why: Annotated[str | None, "why a side has no value or covers only a part"]


class DimensionColumns(TypedDict):
    """A dimension or a group on both sides."""

    dim: str
    group: Annotated[str | None, "null: the whole dimension"]
    a: Annotated[dict[str, float | None], "value by column of the table of parallelism"]
    b: Annotated[dict[str, float | None], "value by column of the table of parallelism"]


class DiffJobs(TypedDict):
    """Differences of two jobs."""

    schema_version: Version
    kind: Literal["jobs"]
    a: JobSide
    b: JobSide
    comparability: JobComparability
    unit: str
    step_time: StepTime
    step_marker: TimeChange | None
    kinds: list[TimeChange]
    waterfall: Annotated[list[WaterfallPart], "parts that add up to the difference"]
    dimensions: list[DimensionChange]
    kernels: list[KernelChange]
    operators: list[OperatorChange]
    collectives: list[CollectiveChange]
    stragglers: list[RankChange]
    metrics: Annotated[
        list[MetricChange],
        "with --metrics: one entry a metric, in the order of the catalog; else empty",
    ]
    by_dimension: Annotated[
        list[DimensionColumns], "with --metrics: dimensions and groups of both sides; else empty"
    ]
    verdict: str
    why: str | None
    basis: dict[str, str]
    runs_vary_pct: RunsVary
    is_unjudged: Annotated[
        bool, "one run a side and no --runs-vary: no difference is better or worse"
    ]


class ProfileSide(TypedDict):
    """Texts of nsys stats that are compared."""

    name: str
    texts: list[str]
    bottleneck: str | None
    collective_share_of_kernels_pct: float | None


class ProfileTimes(TypedDict):
    """Times of a kernel or a range on one side."""

    share_pct: float | None
    calls: int
    total_ns: float | None
    mean_us: float | None
    std_us: float | None


class ProfileRow(TypedDict):
    """A kernel or a range on both sides."""

    part: Literal["range", "kernel"]
    name: str
    a: ProfileTimes | None
    b: ProfileTimes | None
    change_pct: float | None
    verdict: str | None


class DiffProfiles(TypedDict):
    """Differences of texts of nsys stats."""

    schema_version: Version
    a: ProfileSide
    b: ProfileSide
    rows: list[ProfileRow]
    calls_per_backward: dict[str, OfSides]
    verdict: None
    unknown: list[str]
    runs_vary_pct: RunsVary
    why: Annotated[str, "what the verdicts of rows rest on, or why there is none"]


class RunRow(TypedDict):
    """A number of runs on both sides."""

    number: str
    unit: str
    a: float | None
    b: float | None
    delta: float | None
    delta_pct: float | None
    half_width: float | None
    spread: str | None
    higher_is_better: bool | None
    verdict: Annotated[str, "better, worse, …"]
    note: str


class DiffRuns(TypedDict):
    """Differences of runs."""

    schema_version: Version
    a: list[str]
    b: list[str]
    comparability: RunComparability
    rows: list[RunRow]
    verdict: str
    why: str
    runs_vary_pct: RunsVary
