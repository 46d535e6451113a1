"""Types of the JSON documents that commands print, from which their JSON Schemas are made.

A writer returns the type of its document, so that mypy compares both. A text in an annotation
describes the member. Members with a name that is a keyword need the functional form.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from msgspec import Meta, Struct

from ccltui.report.compared_documents import DiffJobs, DiffProfiles, DiffRuns, Version

Status = Annotated[
    Literal["ok", "partial", "unavailable"],
    "partial: the value covers a part of the input, or its sources contradict each other",
]
Sureness = Literal["high", "medium", "low", "unknown"]


class AlltoallTimes(TypedDict):
    """Times of every exchange: longest, shortest and the difference of its kernels."""

    total: list[float]
    actual: list[float]
    delay: list[float]


class AlltoallPart(TypedDict):
    """A part of the device time."""

    name: str
    percent: float
    total_us: float
    operations: int


class AlltoallShares(TypedDict):
    """Where device time went, by kind and by operation."""

    source: str | None
    agrees: bool | None
    kinds: list[AlltoallPart]
    operations: list[AlltoallPart]


class AlltoallStudy(TypedDict):
    """The exchanges of one file."""

    source: str
    made_by: str
    exchanges: int
    incomplete_exchanges: int
    coverage: float | None
    summary: dict[str, dict[str, float | None]]
    kernels: dict[str, int]
    joined_last: dict[str, int]
    each: AlltoallTimes
    shares: AlltoallShares | None


class Alltoall(TypedDict):
    """Delays of all-to-all exchanges."""

    schema_version: Version
    definition: str
    unit: Literal["us"]
    cutoff_percent: float
    studies: list[AlltoallStudy]
    problems: list[str]


class Complaint(TypedDict):
    """A problem of a card, with its line."""

    level: Literal["error", "warning"]
    line: int | None
    message: str


class CardLint(TypedDict):
    """Problems of a workload card."""

    schema_version: Version
    path: str
    complaints: list[Complaint]


class Reason(TypedDict):
    """Why a number is missing or covers a part of the input."""

    code: Annotated[str, "machine-readable"]
    message: Annotated[str, "one sentence"]
    rank: NotRequired[str]
    file: NotRequired[str]


class Details(TypedDict):
    """Envelope and keys of the metric at one level; docs/metrics.md lists the keys with units."""

    metric: Annotated[str | None, "name of the metric"]
    schema: Literal[1]
    status: Status
    reason: Annotated[str | None, "code of the first reason"]
    reasons: list[Reason]
    source: Annotated[str | None, "format that the numbers come from"]
    basis: Annotated[dict[str, Any], "what the numbers are of"]
    inputs: Annotated[dict[str, Any], "fields of the card and parameters that were used"]
    warnings: list[str]


class UsageError(TypedDict):
    """A wrong command line."""

    metric: None
    schema: Literal[1]
    status: Literal["unavailable"]
    reason: Literal["usage"]
    reasons: list[Reason]
    inputs: dict[str, Any]
    warnings: list[str]


class Check(TypedDict):
    """A check, and what to do."""

    check: str
    state: Annotated[str, "ok, note, problem, …"]
    message: str
    fix: Annotated[str, "what to do; empty where that is unknown"]


class DoctorEnvironment(TypedDict):
    """Checks of this machine."""

    schema_version: Version
    environment: list[Check]


class DoctorFile(TypedDict):
    """A file of the directory."""

    path: str
    kind: Annotated[str, "format"]
    rank: int | None
    rank_source: Annotated[str | None, "where the rank comes from"]
    capture: str | None
    size_bytes: int
    duplicate_of: str | None
    problem: str | None


class Viewer(TypedDict):
    """What another viewer leaves out."""

    viewer: str
    hides: Annotated[str, "the rule"]
    count: int
    total: Annotated[int, "of how many"]
    unit: Annotated[str, "what is counted"]
    source: Annotated[str, "issues that describe it"]


class DoctorNote(TypedDict):
    """A remark on what was read."""

    code: str
    where: str | None
    count: int
    offset: Annotated[int | None, "byte"]
    message: str


class Doctor(TypedDict):
    """Checks of a directory."""

    schema_version: Version
    path: str
    capture: Annotated[str, "the capture that is opened"]
    captures: list[str]
    files: list[DoctorFile]
    checks: list[Check]
    viewers: Annotated[
        list[Viewer], "what other viewers leave out of these traces; all of it counts here"
    ]
    notes: list[DoctorNote]


class Sure(TypedDict):
    """How sure it is what happens, who causes it, and how much fixing it saves."""

    what: Sureness
    who: Sureness
    how_much: Sureness


class Evidence(TypedDict):
    """A number that a finding rests on."""

    metric: str
    key: str
    value: float | None
    unit: str


Finding = TypedDict(
    "Finding",
    {
        "class": Annotated[
            str,
            "what costs time: waiting_for_rank, slow_worker, host_bound, "
            "exposed_communication, compute_bound, ...; docs/findings.md "
            "lists all",
        ],
        "label": Annotated[str, "short name with its place"],
        "text": Annotated[str, "one sentence: what happens, where, what it costs"],
        "more": Annotated[str, "a second sentence: who, why; empty where there is none"],
        "where": Annotated[
            dict[str, Any],
            "the place: ranks, host, group, stage, steps, kernel, range, "
            "thread; null or empty where not known",
        ],
        "cost_ms": Annotated[
            float | None, "lost time a step, or of the window without steps, mean over ranks"
        ],
        "share": Annotated[float | None, "its share of rank time, 0 to 1"],
        "saves_ms": Annotated[
            float | None,
            "what a step becomes shorter by when the cause is fixed, by a "
            "replay; never more than cost_ms; null: not known",
        ],
        "saves_bounds_ms": Annotated[
            list[float] | None,
            "least and most of it, where it is not known more closely; of a "
            "rank that others wait for, the most includes its own delay, "
            "which cost_ms does not",
        ],
        "saves_why": Annotated[str | None, "why saves_ms is null"],
        "sure": Sure,
        "evidence": list[Evidence],
        "place": Annotated[
            dict[str, Any] | None, "the largest instance: rank, time_us, group, index"
        ],
        "do": Annotated[str, "what to do"],
        "recordings": NotRequired[
            Annotated[
                list[dict[str, Any]],
                "of the class choice: name, ranks, steps, finding, kind and "
                "share of each recording",
            ]
        ],
    },
)


class Culprit(TypedDict):
    """Who causes it. A list that ends in … is cut."""

    ranks: NotRequired[Annotated[list[str], "labels of ranks"]]
    stage: NotRequired[int | None]
    group: NotRequired[Annotated[str, "process group"]]
    pair: NotRequired[Annotated[list[str], "labels of two ranks"]]
    host: NotRequired[str]
    steps: NotRequired[list[int | str]]
    factor: NotRequired[Annotated[float, "its time divided by that of comparable ones"]]
    recorded: NotRequired[Annotated[bool, "false: the rank is in no file"]]


class Cost(TypedDict):
    """Numbers of the headline by their keys in the metric."""

    metric: Literal["verdict"]
    loss_ms: NotRequired[
        Annotated[float, "what all differences and all waiting for the host cost, a step"]
    ]
    loss_pct: NotRequired[Annotated[float, "the same in % of a step"]]
    saves_ms: NotRequired[
        Annotated[float, "saved a step by giving the culprit the typical times of its peers"]
    ]


class Claim(TypedDict):
    """One statement."""

    about: Literal["step", "ranks", "evidence", "trust"]
    text: Annotated[str, "one sentence"]
    metric: Annotated[str, Meta(min_length=1), "metric it comes from"]
    key: Annotated[
        str, "path in the details of the metric to the value; empty: the details themselves"
    ]
    value: Annotated[
        Any,
        "the number that the sentence states; of several an object, "
        "whose members are paths below key",
    ]
    unit: Annotated[str, "unit of the value; empty without one"]
    command: Annotated[str, "prints the metric with its details"]


class Explanation(TypedDict):
    """What slows a job down."""

    schema: Annotated[
        Literal["ccltui.explanation/2"],
        "the number is raised when a member is removed, renamed or changes its meaning",
    ]
    path: Annotated[str, "the directory as given"]
    ranks: Annotated[int, "ranks that are recorded"]
    world_size: Annotated[int | None, "ranks of the job, recorded or not; null: nothing states it"]
    headline: Annotated[str, "the first finding in one sentence; where nothing could be read, why"]
    recording: Annotated[
        str | None,
        "kind of recording: ranks, one_rank, cpu_ranks, cpu_rank, "
        "filtered, totals, execution_traces, logs, several, no_work, "
        "no_trace",
    ]
    findings: Annotated[list[Finding], "what costs time, the headline first"]
    unknown: Annotated[list[str], "what is not known, and what would tell it"]
    verdict: Annotated[
        str | None,
        "class of the cause: slow_worker, slow_node, occasional_worker, "
        "heavy_stage, uneven_microbatches, uneven_experts, slow_link, "
        "host; random and no_straggler: nobody is at fault; "
        "inconclusive: the records do not show it; null: it was not computed",
    ]
    confidence: Annotated[
        Literal["high", "medium", "low"] | None,
        "confidence of `verdict` as a whole; null: it names no class. "
        "Each finding states its own confidence in three parts "
        "(`sure`)",
    ]
    culprit: Annotated[
        Culprit | None, "who causes it; null: nobody can be named. A list that ends in … is cut"
    ]
    cost: Cost
    actions: Annotated[list[str], "what to do, the most important first: advice, not measurements"]
    claims: Annotated[list[Claim], "the most important first"]
    ruled_out: Annotated[list[str], "class and why it is excluded"]
    missing: Annotated[list[str], "what is not recorded or would make it surer"]
    left_out: Annotated[int, Meta(ge=0), "entries that did not fit"]


class FollowFiles(TypedDict):
    """Paths that differ from the look before."""

    new: list[str]
    grown: list[str]
    gone: list[str]


class FollowedMetric(TypedDict):
    """A metric of the last state."""

    metric: str
    status: Literal["ok", "partial", "unavailable"]
    value: Any
    unit: str
    reason: str | None


class Follow(TypedDict):
    """A change of a followed directory."""

    schema: Annotated[
        Literal["ccltui.follow/1"],
        "raised when a member is removed, renamed or changes its meaning",
    ]
    time: Annotated[str, "when the line was printed, UTC"]
    event: Literal["change", "alert", "end"]
    condition: NotRequired[Annotated[str, "of an alert: the condition that became true"]]
    value: NotRequired[Annotated[float, "of an alert: what was compared"]]
    files: NotRequired[FollowFiles]
    waiting: NotRequired[Annotated[dict[str, str], "files that are not opened, with the reason"]]
    ranks: NotRequired[Annotated[int, "ranks that are read"]]
    problem: NotRequired[Annotated[str | None, "why nothing is opened"]]
    finding: NotRequired[Annotated[str | None, "the first finding in one sentence"]]
    metrics: NotRequired[Annotated[list[FollowedMetric], "the metrics that were named"]]


class Fact(TypedDict):
    """What is recorded of an event, or why it is not."""

    name: str
    value: Annotated[str | float | list[str] | None, "null: not recorded"]
    unit: str | None
    reason: Annotated[str | None, "why it is not recorded"]


class EventPlace(TypedDict):
    """An event by its place and time."""

    rank: Annotated[str, "label of the rank"]
    group: Annotated[str, "group of events: gpu, runtime, cpu_ops, annotations, python, …"]
    row: Annotated[int, "row in the group, as --row takes it"]
    name: str
    start_ns: Annotated[int, "since the earliest event, corrected clock"]
    dur_ns: int


class RelatedEvent(EventPlace):
    """An event that another is related to."""

    relation: Annotated[str, "how it is related: launch, next on stream, …"]
    note: str | None


class InspectedEvent(EventPlace):
    """All that is recorded of one event."""

    facts: list[Fact]
    links: list[RelatedEvent]


class Failure(TypedDict):
    """A file that could not be read."""

    path: str
    error: str


class Trace(TypedDict):
    """What was opened."""

    path: str
    ranks: Annotated[int, "ranks that were read"]
    world_size: Annotated[int | None, "ranks of the job, recorded or not"]
    sources: Annotated[list[str], "formats"]
    capture: str
    missing_ranks: Annotated[list[int], "the first of them where they are thousands"]
    num_missing_ranks: int
    failures: Annotated[list[Failure], "files that could not be read"]
    complete: Annotated[bool, "false: loading was stopped"]


class WindowOf(TypedDict):
    """Restriction in time."""

    text: str
    start_ns: Annotated[int | None, "since the earliest event, corrected clock"]
    end_ns: int | None


class SelectionOf(TypedDict):
    """Restriction of the numbers."""

    steps: str | None
    ranks: str | None
    group: str | None
    span: Literal["steps", "inner", "trace"]
    profile_mode: Literal["auto", "torch", "nsys"]
    raw_clocks: bool
    overrides: Annotated[dict[str, Any], "values of --set, --batch-size and --seq-len"]


class Result(TypedDict):
    """One metric."""

    metric: Annotated[str, "name of the metric"]
    status: Status
    value: Annotated[float | None, "headline; null where it is unavailable"]
    unit: Annotated[str, "unit of the value"]
    definition: str
    reason: Annotated[str | None, "code of the first reason"]
    reasons: list[Reason]
    details: Details
    warnings: list[str]


class Gate(TypedDict):
    """A condition of --fail-if."""

    condition: str
    value: float | None
    tripped: Annotated[bool | None, "null: undecided, see problem"]
    problem: str | None


class MetricsHead(TypedDict):
    """What numbers are of."""

    schema_version: Version
    trace: Trace
    window: WindowOf | None
    selection: SelectionOf


class Metrics(MetricsHead):
    """Metrics of a job."""

    results: list[Result]
    gates: list[Gate]


class MetricsLine(MetricsHead, Result):
    """A metric in a line of its own."""


class ReportedMetric(TypedDict):
    """What a metric is."""

    name: str
    label: str
    unit: str
    higher_is_better: bool | None
    category: str
    definition: str


class ReportedValue(TypedDict):
    """The value of a metric in a directory."""

    value: float | None
    status: Status
    reason: str | None
    message: str | None
    parts: NotRequired[Annotated[dict[str, float], "shares that the value consists of"]]


class ReportedDirectory(TypedDict):
    """The metrics of one directory."""

    directory: str
    problem: Annotated[str | None, "why nothing could be opened"]
    facts: Annotated[dict[str, Any], "of the card and of the traces"]
    results: dict[str, ReportedValue]


class MetricsReport(TypedDict):
    """Metrics of many directories."""

    schema_version: Version
    metrics: list[ReportedMetric]
    rows: list[ReportedDirectory]


class PerfettoMachine(TypedDict):
    """The machine of a trace."""

    name: str


class PerfettoFileName(TypedDict):
    """The file whose clock another follows."""

    file: str


class PerfettoClock(TypedDict):
    """Offset of the clock of a file."""

    sync_to: PerfettoFileName
    offset_ns: int


class PerfettoFile(TypedDict):
    """A trace, with the offset of its clock."""

    path: str
    machine: PerfettoMachine
    clocks: NotRequired[Annotated[PerfettoClock, "absent for the first file"]]


class PerfettoFiles(TypedDict):
    """The traces of a job."""

    version: Literal[1]
    files: list[PerfettoFile]


class PerfettoManifest(TypedDict):
    """Offsets of the clocks of traces."""

    perfetto_manifest: PerfettoFiles


StatsRows = list[dict[str, str | float | None]]


class Document(Struct, frozen=True):
    """A document: its title, what prints it, and its type, several where its form depends."""

    title: str
    printed_by: str
    types: tuple[Any, ...]


DOCUMENTS: Final = {
    "alltoall": Document(
        "Study of all-to-all exchanges",
        "ccltui stats --report alltoall… --format json",
        (Alltoall,),
    ),
    "card-lint": Document(
        "Problems of a workload card",
        "ccltui card lint --format json",
        (CardLint,),
    ),
    "ccl-metrics": Document(
        "Metrics as ccl-metrics prints them",
        "ccl-metrics --trace DIR --metric NAME: one document, "
        "or with several metrics an object of them by name",
        (
            Details,
            Annotated[dict[str, Details], Meta(min_length=2)],
            UsageError,
        ),
    ),
    "diff-jobs": Document(
        "Comparison of traces",
        "ccltui diff A B --format json of traces; basis defines the numbers",
        (DiffJobs,),
    ),
    "diff-profiles": Document(
        "Comparison of texts of nsys stats",
        "ccltui diff A B --format json of folders that hold only texts of nsys stats",
        (DiffProfiles,),
    ),
    "diff-runs": Document(
        "Comparison of runs",
        "ccltui diff A B --format json of runs and of cluster benchmarks",
        (DiffRuns,),
    ),
    "doctor": Document(
        "Checks of a directory",
        "ccltui doctor DIR --format json",
        (Doctor,),
    ),
    "doctor-environment": Document(
        "Checks of this machine",
        "ccltui doctor --environment --format json",
        (DoctorEnvironment,),
    ),
    "explanation": Document(
        "Explanation of a job",
        "ccltui explain DIR --format json; "
        "at most --budget bytes (16384), entries left out are counted",
        (Explanation,),
    ),
    "follow": Document(
        "Changes of a followed directory, one a line",
        "a line of ccltui DIR --follow",
        (Follow,),
    ),
    "inspect": Document(
        "One event",
        "ccltui inspect DIR --format json",
        (InspectedEvent,),
    ),
    "metrics": Document(
        "Metrics",
        "ccltui DIR --metric NAME --format json, and metrics.json of ccltui analyse",
        (Metrics,),
    ),
    "metrics-line": Document(
        "Metrics, one a line",
        "a line of ccltui DIR --metric NAME --format jsonl",
        (MetricsLine,),
    ),
    "metrics-report": Document(
        "Metrics of many directories",
        "ccltui metrics-report DIR… --format json",
        (MetricsReport,),
    ),
    "perfetto-manifest": Document(
        "Offsets for Perfetto",
        "ccltui export DIR --to perfetto-manifest; the form is Perfetto's own",
        (PerfettoManifest,),
    ),
    "stats": Document(
        "Reports in the form of nsys stats",
        "ccltui stats PATH --format json: rows of one report; "
        "of several by name; of several captures by capture",
        (
            StatsRows,
            dict[str, StatsRows | dict[str, StatsRows]],
        ),
    ),
}
"""Documents by the name of their schema, in order of names."""
