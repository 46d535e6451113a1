"""The answer of the metric `findings` as the Overview lists it: findings, kinds of time, ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ccltui.tui.state.answers import FileQuery
from ccltui.tui.state.scene import Scene, rank_name

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.parsers.job import Job
    from ccltui.tui.state.answers import Step

MOST_RANKS: Final = 8
"""Most rows of ranks; the last one stands for all others."""
_LEAST_FOLDED: Final = 3
"""Fewer alike ranks are listed one by one: a line for two would save nothing."""
NOT_A_CAUSE: Final = frozenset({"compute_bound", "cpu_bound"})
"""Classes that describe all time, not a loss."""

Row = Mapping[str, Any]


def details(scene: Scene, name: str) -> Row:
    """Return the details of a metric, empty while it has no value."""
    result = scene.findings.results.get(name)
    return {} if result is None or result.status == "unavailable" else result.details


class FindingsQuery(FileQuery["Sequence[Result]"], frozen=True):
    """Findings on a directory without traces: totals, logs, execution traces."""

    path: str

    def answer(self, job: Job, cancelled: Callable[[], bool]) -> Sequence[Result]:
        """Return the result of the metric, made in a separate process."""
        from ccltui.tui.state.query_kinds import made_in_process  # noqa: PLC0415  (after the first paint)

        del job
        return made_in_process(partial(_findings_at, self.path), cancelled)


def _findings_at(path: str) -> list[Result]:
    from ccltui.metrics.registry import find  # noqa: PLC0415  (in a process of its own)
    from ccltui.metrics.view.job_view import View  # noqa: PLC0415
    from ccltui.parsers.job import open_job  # noqa: PLC0415

    return [find("findings").run(View(open_job(path)))]


def query(scene: Scene) -> FindingsQuery | None:
    """Return the query for the findings of a directory without traces, None where there are any."""
    job = scene.session.job
    if job is None or job.capture.files or not job.discovery.files:
        return None
    return FindingsQuery(scene.session.path)


def result_of(scene: Scene) -> Result | None:
    """Return the result of `findings`, None while it is not computed."""
    found = scene.findings.results.get("findings")
    if found is None and (asked := query(scene)) is not None:
        rows = scene.answers.answer(asked)
        return rows[0] if rows else None
    return found


def answer(scene: Scene) -> Row:
    """Return the details of `findings`, also where no share is known; empty while not computed."""
    result = result_of(scene)
    return {} if result is None else result.details


def findings(scene: Scene) -> Sequence[Row]:
    """Return what costs time, the headline first."""
    return tuple(answer(scene).get("findings") or ())


def time_of(scene: Scene, place: Row) -> int | None:
    """Return the time of a place in ns: its own, or the begin of its step; None without either."""
    time_us: float | None = place.get("time_us")
    if time_us is not None:
        return round(time_us * 1000)
    starts = [step.start_ns for step in scene.findings.steps if step.id == place.get("step")]
    return starts[0] if starts else None


def step_at(scene: Scene, time_ns: int) -> Step | None:
    """Return the step that contains a time, None between steps."""
    steps = scene.findings.steps
    return next((step for step in steps if step.start_ns <= time_ns < step.end_ns), None)


class RankBar(Struct, frozen=True):
    """One rank, or several that are alike, the first of which is drawn.

    Attributes:
        labels: the ranks.
        shares: share of time by kind, of the first rank.
        least: smallest share of computing of these ranks, and ``most`` the largest.
        most: see ``least``.
        number: number of the finding that names the rank, 0 where none does.
        is_rest: whether the row stands for ranks that are not alike.
    """

    labels: tuple[str, ...]
    shares: Mapping[str, float]
    least: float
    most: float
    number: int = 0
    is_rest: bool = False


def rank_bars(scene: Scene) -> list[RankBar]:
    """Return ranks that findings name, then the others by computing; those that are alike as one.

    Empty where the time of fewer than two ranks is known.
    """
    per_rank: Mapping[str, Row] = answer(scene).get("per_rank") or {}
    if len(per_rank) < 2:
        return []
    named = named_ranks(result_of(scene))
    order = sorted(
        per_rank, key=lambda one: (named.get(one, len(per_rank) + 9), -_work(per_rank[one]))
    )
    groups: list[list[str]] = []
    for label in order:
        same = groups and label not in named and groups[-1][0] not in named
        if same and _is_alike(per_rank[groups[-1][0]], per_rank[label]):
            groups[-1].append(label)
        else:
            groups.append([label])
    rows: list[RankBar] = []
    for group in groups:
        parts = [group] if len(group) >= _LEAST_FOLDED else [[label] for label in group]
        rows += [_bar(per_rank, one, named.get(one[0], 0)) for one in parts]
    if len(rows) <= MOST_RANKS:
        return rows
    rest = [label for row in rows[MOST_RANKS - 1 :] for label in row.labels]
    return [*rows[: MOST_RANKS - 1], _bar(per_rank, rest, 0, is_rest=True)]


def _bar(
    per_rank: Mapping[str, Row], labels: Sequence[str], number: int, *, is_rest: bool = False
) -> RankBar:
    work = [_work(per_rank[label]) for label in labels]
    shares = {kind: value for kind, value in per_rank[labels[0]].items() if kind != "waited_for"}
    return RankBar(tuple(labels), shares, min(work), max(work), number, is_rest)


def _work(row: Row) -> float:
    """Share of computing, on a host of operators."""
    return float(row.get("compute", row.get("operators", 0.0)))


def _is_alike(one: Row, other: Row) -> bool:
    from ccltui.metrics.findings.rank_time.portions import ALIKE  # noqa: PLC0415  (numpy)

    return all(abs(one[kind] - other[kind]) <= ALIKE for kind in one if kind != "waited_for")


def named_ranks(result: Result | None) -> dict[str, int]:
    """Return the ranks that findings name, with the number of the first finding that does."""
    found: dict[str, int] = {}
    for number, row in enumerate(() if result is None else result.details.get("findings") or (), 1):
        if row["class"] not in NOT_A_CAUSE:
            for label in row["where"]["ranks"]:
                found.setdefault(label, number)
    return found


def is_computing_files(scene: Scene) -> bool:
    """Return whether a directory without traces may still get findings, from its other files."""
    job = scene.session.job
    if job is None or job.ranks or scene.session.phase not in ("ready", "stopped"):
        return False
    usable = any(not found.problem for found in job.discovery.files)
    return usable and not scene.findings.complete


def naming(scene: Scene, label: str | None = None) -> Row | None:
    """Return the first finding that names ranks, or this rank; None where there is none.

    Every pane that says who makes others wait quotes it, with its confidence.
    """
    named = named_ranks(result_of(scene))
    number = min(named.values(), default=0) if label is None else named.get(label, 0)
    return findings(scene)[number - 1] if number else None


def naming_text(scene: Scene, found: Row) -> str:
    """Return number, name and ranks of a finding that names ranks, and how sure these are."""
    ranks: Sequence[str] = found["where"]["ranks"]
    number = findings(scene).index(found) + 1
    who = f"{rank_name(ranks[0])}{f' and {len(ranks) - 1} more' if len(ranks) > 2 else ''}"
    if len(ranks) == 2:
        who = " and ".join(map(rank_name, ranks))
    return f"finding {number}: {found['label']} ({who}; confidence {found['sure']['who']})"


def work_by_rank(scene: Scene) -> list[float]:
    """Return the share of computing of every rank, in order of rank."""
    return [_work(row) for row in (answer(scene).get("per_rank") or {}).values()]
