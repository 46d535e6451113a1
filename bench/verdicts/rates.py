"""Tables of the rates over many scored jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from bench.verdicts import goals
from bench.verdicts.marks import Marked
from bench.verdicts.quantiles import nearest, wilson
from bench.verdicts.scored_job import Scored

CONDITIONS: Final = ("clean", "damaged", "two", "link", "null")
CONFIDENCES: Final = ("high", "medium", "low", "")
FAULTY: Final = ("right", "wrong", "abstained")
WORST: Final = 10


def text_of(jobs: Sequence[Scored]) -> str:
    """All tables."""
    metrics = list(dict.fromkeys(name for job in jobs for name in job.marks))
    named = next((one for one in ("findings", "verdict") if one in metrics), "blame_chain")
    head = ("goal", "bound", "value", "met")
    parts = [_summary(jobs), _table(f"goals ({named})", head, goals.rows(goals.goals(jobs, named)))]
    for name in metrics:
        if name != "what_if_no_straggler":
            parts += [_by_condition(jobs, name), _reliability(jobs, name)]
    parts += [
        _by(jobs, named, "topology", lambda job: job.topology),
        _by(jobs, named, "planted", lambda job: job.fault or "nothing material"),
        _by(jobs, named, "level", lambda job: job.level),
        _saved(jobs, metrics),
        _counts(jobs, metrics),
        _worst(jobs, named),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(jobs: Sequence[Scored]) -> str:
    failed = [job for job in jobs if job.failure]
    cpu_s = sum(job.cpu_s for job in jobs)
    lines = [f"{len(jobs)} jobs, {cpu_s:.0f} CPU-s, {len(failed)} failed"]
    lines += [f"  seed {job.seed}: {job.failure[:160]}" for job in failed[:WORST]]
    return "\n".join(lines)


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"### {title}", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{part} ({part / whole:.0%})" if whole else "0"


def _marks(jobs: Iterable[Scored], name: str) -> list[Marked]:
    return [job.marks[name] for job in jobs if name in job.marks]


def _by_condition(jobs: Sequence[Scored], name: str) -> str:
    """The table of the goals: who, class and cause, by the state of the files."""
    rows = []
    for condition in CONDITIONS:
        marks = _marks([job for job in jobs if job.condition == condition], name)
        rows.append([condition, *_row(marks)])
    head = (
        "condition", "jobs", "right", "wrong", "abstained", "nobody named, rightly",
        "wrong high", "wrong medium", "wrong and material", "class right", "cause right",
    )  # fmt: skip
    return _table(f"{name}, by condition", head, rows)


def _row(marks: Sequence[Marked]) -> list[str]:
    count = len(marks)
    wrong = [mark for mark in marks if mark.mark == "wrong"]
    causes = [mark.cause_right for mark in marks if mark.cause_right is not None]
    named = [mark for mark in marks if mark.mark in ("right", "wrong")]
    classes = sum(mark.class_mark == "right" for mark in named)
    return [
        str(count),
        _share(sum(mark.mark == "right" for mark in marks), count),
        _share(len(wrong), count),
        _share(sum(mark.mark == "abstained" for mark in marks), count),
        _share(sum(mark.mark == "quiet" for mark in marks), count),
        str(sum(mark.confidence == "high" for mark in wrong)),
        str(sum(mark.confidence == "medium" for mark in wrong)),
        str(sum(mark.material for mark in wrong)),
        f"{classes} of {len(named)}",
        f"{sum(map(bool, causes))} of {len(causes)}",
    ]


def _reliability(jobs: Sequence[Scored], name: str) -> str:
    """Confidence against correctness, of all answers that name a class or somebody."""
    marks = [mark for mark in _marks(jobs, name) if mark.mark in ("right", "wrong")]
    rows = []
    for confidence in CONFIDENCES:
        those = [mark for mark in marks if mark.confidence == confidence]
        if those:
            right = sum(mark.mark == "right" for mark in those)
            low, high = wilson(right, len(those))
            share = f"{right / len(those):.1%}"
            bounds = f"{low:.1%} to {high:.1%}"
            rows.append([confidence or "none stated", str(len(those)), str(right), share, bounds])
    head = ("confidence", "named", "right", "share", "95 % interval")
    return _table(f"{name}, reliability", head, rows)


def _by(jobs: Sequence[Scored], name: str, title: str, key: Callable[[Scored], str]) -> str:
    kinds = sorted({key(job) for job in jobs if not job.failure})
    rows = [
        [kind, *_row(_marks([job for job in jobs if key(job) == kind], name))] for kind in kinds
    ]
    head = (
        title, "jobs", "right", "wrong", "abstained", "nobody named, rightly", "wrong high",
        "wrong medium", "wrong and material", "class right", "cause right",
    )  # fmt: skip
    return _table(f"{name}, by {title}", head, rows)


def _saved(jobs: Sequence[Scored], metrics: Sequence[str]) -> str:
    """Error of the saved time, of jobs with one fault that costs at least 5 % of the step."""
    rows = []
    for name in metrics:
        for topology in sorted({job.topology for job in jobs}):
            errors = sorted(
                abs(mark.saved_error)
                for mark in _marks([job for job in jobs if job.topology == topology], name)
                if mark.saved_error is not None
            )
            if errors:
                p50, p90 = nearest(errors, 0.5), nearest(errors, 0.9)
                values = [f"{value:.1%}" for value in (p50, p90, errors[-1])]
                rows.append([name, topology, str(len(errors)), *values])
    head = ("metric", "topology", "jobs", "p50", "p90", "largest")
    return _table("error of the saved time", head, rows) if rows else ""


def _counts(jobs: Sequence[Scored], metrics: Sequence[str]) -> str:
    rows = []
    for name in metrics:
        silent = [job.seed for job in jobs if name in job.marks and job.marks[name].silent_ok]
        below = [job.seed for job in jobs if name in job.marks and job.marks[name].below_one]
        rows.append([name, str(len(silent)), str(len(below)), _seeds([*silent, *below])])
    head = ("metric", "ok with a rank left out", "S below 0.995", "seeds")
    return _table("must be 0", head, rows)


def _seeds(seeds: Sequence[int]) -> str:
    return " ".join(map(str, sorted(set(seeds))[:WORST]))


def _worst(jobs: Sequence[Scored], name: str) -> str:
    """Wrong answers, surest first, then by what is at stake."""
    wrong = [job for job in jobs if name in job.marks and job.marks[name].mark == "wrong"]
    order = {confidence: place for place, confidence in enumerate(CONFIDENCES)}
    wrong.sort(key=lambda job: (order.get(job.marks[name].confidence, 9), -job.cost_share))
    lines = [f"### {name}, worst of {len(wrong)} wrong", ""]
    for job in wrong[:WORST]:
        lines += [
            f"- `ccltui demo DIR --no-open --fault any --varied --seed {job.seed}` ({job.family},"
            f" {job.condition}, {job.level}): planted {job.planted or 'nothing'};"
            f" answer: {job.marks[name].text}"
        ]
    return "\n".join(lines)
