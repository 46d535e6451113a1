"""A finding: one cause of lost time, with place, cost, confidence, evidence and remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, structs

from ccltui.metrics.confidence import Sure
from ccltui.metrics.view.words import inside, label_of, short_name
from ccltui.parsers.numbers import counted

if TYPE_CHECKING:
    from ccltui.metrics.findings.rank_time.portions import Portions

Kind = Literal[
    # one rank, group or stage, proved by replays or arrivals
    "waiting_for_rank",
    "slow_worker",
    "occasional_worker",
    "slow_node",
    "heavy_stage",
    "uneven_microbatches",
    "uneven_experts",
    "slow_link",
    "slow_replica",
    "slow_layer",
    "random",
    # parts of the time of devices
    "pipeline_bubble",
    "exposed_communication",
    "data_loading",
    "host_allocation",
    "host_synchronisation",
    "checkpoint",
    "garbage_collection",
    "host_bound",
    "launch_latency",
    "stream_dependency",
    "kernel_gaps",
    "idle_unknown",
    "copies",
    "compute_bound",
    "slow_steps",
    # jobs without devices
    "cpu_bound",
    "collective_wait",
    "uneven_ranks",
    # recordings that are no timeline of a job
    "kernel_totals",
    "range_totals",
    "transfer_spread",
    "counts",
    "run_log",
    "choice",
    "hang",
    "failure",
    "nothing",
]


class Where(Struct, frozen=True):
    """The place of a finding; what is not known is empty or None.

    Attributes:
        ranks: labels of the ranks that cause it.
        host: name of their host.
        group: process group or parallel dimension.
        stage: pipeline stage.
        steps: step ids, where only some are concerned.
        kernel: name of a kernel or operator.
        range: name of a range of the user.
        thread: name of a thread of the host.
    """

    ranks: tuple[str, ...] = ()
    host: str | None = None
    group: str | None = None
    stage: int | None = None
    steps: tuple[int, ...] = ()
    kernel: str | None = None
    range: str | None = None
    thread: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON form, every member present: lists are empty and texts null where unknown."""
        found = structs.asdict(self)
        return {key: list(one) if isinstance(one, tuple) else one for key, one in found.items()}


class Evidence(Struct, frozen=True):
    """Where a number of a finding comes from: the metric, its key, the number and its unit."""

    metric: str
    key: str
    value: float | None = None
    unit: str = ""


class Recording(Struct, frozen=True):
    """One of several recordings that only share a folder, and its first finding.

    Attributes:
        name: name for ``--capture``.
        ranks: number of its ranks.
        steps: number of its steps, None where no step is marked.
        finding: sentence of its first finding, or why it cannot be read.
        kind: class of that finding, None where it cannot be read.
        share: its share of rank time.
    """

    name: str
    ranks: int
    steps: int | None
    finding: str
    kind: str | None = None
    share: float | None = None


class Finding(Struct, frozen=True):
    """One cause of lost time.

    Attributes:
        kind: class of the cause.
        text: one sentence: what happens, where, what it costs.
        more: a second sentence, "" where nothing is to be added: who, why, how sure.
        where: the place.
        share: share of rank time, 0 to 1, mean over ranks; None where the recording has no times.
        cost_ms: lost time a step, or of the whole window without steps.
        saves_ms: what a step becomes shorter by when it is mended; None with ``saves_why``.
        saves_bounds_ms: least and most of it, where it is not known more closely.
        saves_why: why ``saves_ms`` is None.
        sure: confidence.
        evidence: sources of the numbers.
        place: the largest instance, as the explorer opens it; None without one.
        do: what to do.
        recordings: of the class ``choice``, one row for each recording; empty for all others.
    """

    kind: Kind
    text: str
    more: str = ""
    where: Where = Where()
    share: float | None = None
    cost_ms: float | None = None
    saves_ms: float | None = None
    saves_bounds_ms: tuple[float, float] | None = None
    saves_why: str = ""
    sure: Sure = Sure()
    evidence: tuple[Evidence, ...] = ()
    place: Mapping[str, Any] | None = None
    do: str = ""
    recordings: tuple[Recording, ...] = ()

    @property
    def label(self) -> str:
        """Short name with its place, for lists."""
        return label_of(self.kind, self.where.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """JSON form; ``recordings`` is there for the class ``choice`` alone."""
        bounds = self.saves_bounds_ms
        rows = [structs.asdict(one) for one in self.recordings]
        return {
            "class": self.kind,
            "label": self.label,
            "text": self.text,
            "more": self.more,
            "where": self.where.to_dict(),
            "cost_ms": self.cost_ms,
            "share": self.share,
            "saves_ms": self.saves_ms,
            "saves_bounds_ms": None if bounds is None else list(bounds),
            "saves_why": self.saves_why or None,
            "sure": self.sure.to_dict(),
            "evidence": [structs.asdict(one) for one in self.evidence],
            "place": self.place,
            "do": self.do,
            **({"recordings": rows} if rows else {}),
        }


class Answer(Struct, frozen=True):
    """All findings on a recording, the headline first.

    Attributes:
        recording: kind of recording: ``ranks``, ``one_rank``, ``cpu_ranks``, ``filtered``,
            ``totals``, ``execution_traces``, ``logs``, ``no_work``, ``no_trace``.
        findings: at least one.
        unknown: what is not known, each with what would tell it, one sentence each.
        period: what costs are of: ``step`` or ``window``.
        period_ms: its length, mean over ranks; None where there is none.
        portions: kinds of time of the job and of its ranks; None where no rank time is known.
    """

    recording: str
    findings: tuple[Finding, ...]
    unknown: tuple[str, ...] = ()
    period: str = "window"
    period_ms: float | None = None
    portions: Portions | None = None

    @property
    def headline(self) -> str:
        """What is said first."""
        return self.findings[0].text


def choice_of(rows: Sequence[Recording], opened: str) -> Finding:
    """Return what the recordings are; ``opened`` is the name of the one that is described."""
    main = next(row for row in rows if row.name == opened)
    number = counted(len(rows), "separate recording")
    return Finding(
        kind="choice",
        text=f"The folder holds {number}; the one opened is {_apart(main.name, rows)}: "
        f"{inside(main.finding)}",
        more="The findings below are about that one.",
        sure=Sure(what="high"),
        do="Open another recording with --capture NAME; compare two with ccltui diff.",
        recordings=tuple(rows),
    )


def _apart(name: str, rows: Sequence[Recording]) -> str:
    """Return the end of the path of a recording that tells it from the others."""
    parts = name.split("/")
    others = [row.name for row in rows if row.name != name]
    ends = ("/".join(parts[-number:]) for number in range(1, len(parts)))
    return short_name(
        next(
            (end for end in ends if not any(f"/{one}".endswith(f"/{end}") for one in others)), name
        )
    )


def why_not_exact(saves_ms: float | None, bounds_ms: Sequence[float] | None) -> str:
    """Return why no single saving is stated, "" where one is."""
    if saves_ms is not None:
        return ""
    if bounds_ms is None:
        return "no replay shows how much shorter a step would be"
    return "the replay gives only a lower and an upper bound"
