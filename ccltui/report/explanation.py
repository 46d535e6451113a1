"""Explain a recording on one page: what costs time, who causes it, why, and how sure that is.

The findings come from the metric of that name; every other statement names the metric and the key
that it comes from. Nothing is computed here.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.confidence import sure_text
from ccltui.metrics.findings.finding import Recording, choice_of
from ccltui.metrics.findings.rank_time.portions import ALIKE
from ccltui.metrics.unavailable import merged_reasons
from ccltui.metrics.view.words import ranks_text, sentence
from ccltui.parsers.numbers import counted, percent, time_text
from ccltui.parsers.safe_text import safe_text
from ccltui.report import overview_text
from ccltui.report.json_document import TraceSummary
from ccltui.report.overview_text import Results, details_of

METRICS: Final = (
    "findings",
    "verdict",
    "iter_time",
    "step_variability",
    "step_composition",
    "temporal_breakdown",
    "fix_first",
    "what_if_no_straggler",
    "straggler_lag",
    "blame_chain",
    "exposed_communication",
    "clock_offsets",
    "coll_call_num",
    "collective_mismatches",
    "run_completeness",
    "hang_verdict",
)
"""Metrics that an explanation uses, in the order in which they are computed."""
BUDGET: Final = 16_384
"""Largest size of the JSON document in bytes, unless another is asked for."""
_MOST_LISTED: Final = 16
"""Ranks or steps of a culprit that are listed."""
_MOST_ACTIONS: Final = 3
_MOST_FINDINGS: Final = 10
_MOST_MISMATCHES: Final = 2
_MOST_STEPS: Final = 3
_MOST_GROUPS: Final = 4
_LEAST_GROUPS: Final = 2
_MOST_NAMED: Final = 4
"""Metrics that hold in part and are named: a damaged file concerns all of them."""
_NOTHING_READ: Final = (
    "Look at the files: ccltui doctor DIR lists what each is, and what to do about it. "
    "docs/collect.md shows how to record a job; ccltui demo writes one to look at."
)
_SELECTION: Final = ("window_empty", "no_process_groups", "missing_ranks")
"""Codes of reasons why a selection leaves nothing, though files were read."""
_NOTHING_SELECTED: Final = (
    "Select what is there: the message above names it; without options all of the job is explained."
)
_APART: Final = (
    "If the job hung, look first at rank {rank}, whose collectives begin or end "
    "at other times than those of its peers: its log, the stack of its process (py-spy dump), and "
    "flight recorder dumps of all ranks."
)


class Claim(Struct, frozen=True):
    """One statement, and where it comes from.

    Attributes:
        about: "step", "ranks", "evidence" or "trust".
        text: the statement, one sentence.
        metric: name of the metric.
        key: path in the details of its result to the value, "" for the details themselves.
        value: the number or word that the sentence states; of several a mapping, whose keys are
            paths below ``key``.
        unit: unit of the value, "" without one.
    """

    about: str
    text: str
    metric: str
    key: str
    value: object = None
    unit: str = ""


class Explanation(Struct, frozen=True):
    """What costs time in a recording, with the sources of all numbers.

    Attributes:
        path: the directory as given.
        headline: the first finding in one sentence.
        findings: what costs time, as the metric ``findings`` states it, the headline first.
        claims: further statements, the most important first.
        unknown: what is not known, and what would tell it.
        missing: reasons of results that are partial or absent.
        ruled_out: causes that are excluded, with the reason.
        verdict: class of the cause that replays name, None where there is none.
        confidence: "high", "medium", "low" of the verdict, or None.
        culprit: who causes it, as the metric ``verdict`` states it, None where nobody is named.
        cost: numbers of the verdict by their keys in the metric.
        actions: what to do, the most important first.
        recording: kind of recording.
        ranks: number of ranks that are recorded.
        world_size: number of ranks of the job, None where nothing states it.
        options: command-line options of the selection that was explained.
    """

    path: str
    headline: str
    findings: tuple[Mapping[str, Any], ...]
    claims: tuple[Claim, ...]
    unknown: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    ruled_out: tuple[str, ...] = ()
    verdict: str | None = None
    confidence: str | None = None
    culprit: Mapping[str, Any] | None = None
    cost: Mapping[str, float] = {}
    actions: tuple[str, ...] = ()
    recording: str | None = None
    ranks: int = 0
    world_size: int | None = None
    options: tuple[str, ...] = ()

    def command(self, claim: Claim) -> str:
        """Return the command that prints the value of a statement."""
        return self._command(f"--metric {claim.metric}")

    def all_commands(self) -> str:
        """Return the command that prints all metrics of the statements."""
        used = dict.fromkeys(
            [
                "findings",
                *(row["metric"] for one in self.findings for row in one["evidence"]),
                *(claim.metric for claim in self.claims),
            ]
        )
        return self._command(*(f"--metric {name}" for name in used))

    def _command(self, *metrics: str) -> str:
        options = map(quoted, self.options)
        return " ".join(["ccltui", quoted(self.path), *metrics, "--detail", *options])


def quoted(path: str) -> str:
    """Return a path or an option for a shell, safe to print."""
    return safe_text(shlex.quote(path))


def explain(trace: TraceSummary, results: Results, options: Sequence[str] = ()) -> Explanation:
    """Explain a recording from the results of `METRICS`; any of them may be absent.

    Args:
        trace: what was opened.
        results: results by name of the metric.
        options: command-line options that select the same part of the job.
    """
    claims: list[Claim] = []
    for add in (_step, _slow_steps, _parts, _ranks):
        claims += add(results)
    claims += _lag(trace, results) + _one_sided(results)
    claims += _trust(trace, results)
    found, verdict = details_of(results, "findings"), details_of(results, "verdict")
    return Explanation(
        path=trace.path,
        headline=headline(results),
        findings=tuple(found.get("findings") or ())[:_MOST_FINDINGS],
        claims=tuple(claims),
        unknown=tuple(found.get("unknown") or ()),
        missing=_missing(trace, results) if trace.ranks else (),
        ruled_out=tuple(
            f"{str(one['class']).replace('_', ' ')}: {one['why']}"
            for one in verdict.get("ruled_out", ())
        ),
        verdict=verdict.get("verdict"),
        confidence=verdict.get("confidence"),
        culprit=_stated(verdict.get("culprit")),
        cost={key: verdict[key] for key in _COSTS if verdict.get(key) is not None},
        actions=_actions(results, is_selected=bool(options) and is_left_empty(results)),
        recording=found.get("recording"),
        ranks=trace.ranks,
        world_size=trace.world_size,
        options=tuple(options),
    )


def with_choice(found: Explanation, rows: Sequence[Recording], opened: str) -> Explanation:
    """Return the explanation of the opened one of several recordings, headed by their list."""
    choice = choice_of(rows, opened)
    return replace(
        found,
        headline=choice.text,
        recording="several",
        findings=(choice.to_dict(), *found.findings),
        actions=(choice.do, *found.actions),
    )


def headline(results: Results) -> str:
    """Return the first finding in one sentence; where there is none, why nothing could be read."""
    found = details_of(results, "findings")
    if found.get("headline"):
        return str(found["headline"])
    result = results.get("findings")
    if result is None or not result.reasons:
        return "No findings were computed."
    why = result.reasons[0].message.removeprefix("could not be read: ").rstrip(".")
    return f"{'Nothing is left' if is_left_empty(results) else 'Nothing could be read'}: {why}."


def is_left_empty(results: Results) -> bool:
    """Return whether nothing is left of what was read, as no step, rank or group is selected."""
    result = results.get("findings")
    if result is None or result.status != "unavailable" or not result.reasons:
        return False
    return result.reasons[0].code in _SELECTION


def _actions(results: Results, *, is_selected: bool) -> tuple[str, ...]:
    """Return what to do about the first findings, each once; without any, what to try.

    ``is_selected`` is whether options selected a part of the job in which nothing is.
    """
    rows = details_of(results, "findings").get("findings") or ()
    actions = [row["do"] for row in rows if row.get("do")]
    apart = _rank_apart(details_of(results, "collective_mismatches"))
    hints = [] if apart is None else [_APART.format(rank=apart)]
    return tuple(dict.fromkeys([*hints, *actions[:_MOST_ACTIONS]])) or (
        _NOTHING_SELECTED if is_selected else _NOTHING_READ,
    )


_COSTS: Final = ("loss_ms", "loss_pct", "saves_ms")


def _stated(culprit: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the members of a culprit that are known, lists cut to what a reader can use."""
    if culprit is None:
        return None
    return {
        key: [*value[:_MOST_LISTED], "…"]
        if isinstance(value, list) and len(value) > _MOST_LISTED
        else value
        for key, value in culprit.items()
        if value is not None
    }


def _step(results: Results) -> list[Claim]:
    text = overview_text.step_time(results)
    if not text:
        return []
    mean = details_of(results, "iter_time")["avg_iter_time_ms"]
    return [Claim("step", text, "iter_time", "avg_iter_time_ms", mean, "ms")]


def _slow_steps(results: Results) -> list[Claim]:
    """Return the steps that take longest beyond the median step, and who makes them slow."""
    rows = details_of(results, "step_variability").get("slow_steps") or ()
    return [
        Claim(
            "step",
            f"{sentence(str(row['sentence']))} (Confidence: {sure_text(row['sure'])}.)",
            "step_variability",
            f"slow_steps.{number}.over_ms",
            row["over_ms"],
            "ms",
        )
        for number, row in enumerate(rows[:_MOST_STEPS])
    ]


def _parts(results: Results) -> list[Claim]:
    rows = details_of(results, "step_composition").get("parts") or ()
    if _is_filtered(results):
        return []
    shares: dict[str, float] = {}
    for row in rows:
        kind = _PARTS.get(row["kind"], row["kind"])
        shares[kind] = shares.get(kind, 0.0) + (row["share"] or 0.0)
    if not shares:
        return []
    parts = ", ".join(f"{name} {percent(share)}" for name, share in shares.items() if share)
    text = f"Time of the devices: {parts}."
    known = {f"{number}.share": row["share"] for number, row in enumerate(rows)}
    return [Claim("step", text, "step_composition", "parts", known, "ratio")]


def _is_filtered(results: Results) -> bool:
    """Return whether kernels were left out of the files: what is no kernel in them is not idle."""
    return details_of(results, "findings").get("recording") == "filtered"


_PARTS: Final = {"communication": "transfer"}
"""Kinds of parts of a step whose name on a page differs."""


def _ranks(results: Results) -> list[Claim]:
    """Return the ranks that compute most and least."""
    rows = details_of(results, "step_composition").get("per_rank") or {}
    shares = {label: row["compute"] for label, row in rows.items() if row["compute"] is not None}
    if len(shares) < _LEAST_GROUPS or not any(shares.values()) or _is_filtered(results):
        return []
    most, least = max(shares, key=lambda one: shares[one]), min(shares, key=lambda one: shares[one])
    known = {f"{label}.compute": shares[label] for label in (most, least)}
    low, high = percent(shares[least]), percent(shares[most])
    range_ = high if low == high else f"{low} to {high}"
    text = f"All ranks compute about equally long, {range_} of the time."
    if shares[most] - shares[least] >= ALIKE:
        text = (
            f"Ranks compute between {low} ({ranks_text((least,))}) and {high} "
            f"({ranks_text((most,))}) of the time."
        )
    return [Claim("ranks", text, "step_composition", "per_rank", known, "ratio")]


def _lag(trace: TraceSummary, results: Results) -> list[Claim]:
    """Return how late the last rank is, and who delays it where no finding names that rank.

    A finding states what waiting for a rank costs; `blame_chain` weighs the same waiting otherwise.
    """
    claims = []
    lag = details_of(results, "straggler_lag")
    measured = details_of(results, "coll_call_num").get("num_traces", trace.ranks)
    of = "" if measured == trace.ranks else f" of the {measured} selected"
    if lag.get("mean_lag_us") is not None:
        mean = lag["mean_lag_us"]
        by = "" if lag["lag_aligned"] else ", by durations alone: clocks are not all known"
        text = (
            f"On average the last rank{of} reaches a collective {time_text(mean / 1000)} after the "
            f"first (n = {lag['num_collectives']:,}){by}."
        )
        claims.append(Claim("evidence", text, "straggler_lag", "mean_lag_us", mean, "us"))
    chain = details_of(results, "blame_chain")
    root, share = chain.get("root_rank"), chain.get("root_share")
    found = details_of(results, "findings").get("findings") or ()
    named = {label for one in found for label in one["where"]["ranks"] or ()}
    if root is not None and share is not None and root not in named:
        among = "" if measured == trace.ranks else "between the selected ranks "
        text = (
            f"Followed back to where each delay began, {percent(share)} of the waiting {among}at "
            f"collectives is due to rank {root}."
        )
        claims.append(Claim("evidence", text, "blame_chain", "root_share", share, "ratio"))
    return claims


def _one_sided(results: Results) -> list[Claim]:
    """Return the collectives that only some ranks of a group made, or made differently."""
    found = details_of(results, "collective_mismatches")
    rows = (found.get("findings") or ())[:_MOST_MISMATCHES]
    metric = "collective_mismatches"
    claims = [
        Claim("evidence", f"{row['text']}.", metric, f"findings.{number}.text", row["text"])
        for number, row in enumerate(rows)
    ]
    outside = found.get("num_outside_window")
    if outside:
        names = [one["group"] for one in _uneven_groups(found)]
        more = len(names) - _MOST_GROUPS
        named = "; ".join(names[:_MOST_GROUPS]) + (f" and {more} more" if more > 0 else "")
        apart = _rank_apart(found)
        text = (
            f"{counted(outside, 'collective')} {'was' if outside == 1 else 'were'} recorded on "
            "some ranks of a group only, at the beginning or the end: the recordings begin or end "
            f"at different times, or a rank stopped. Groups: {named}."
        )
        text += "" if apart is None else f" Only rank {apart} is in all of these groups."
        claims.append(Claim("evidence", text, metric, "num_outside_window", outside))
    return claims


def _uneven_groups(mismatches: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in mismatches.get("by_group") or () if one["outside"]]


def _rank_apart(mismatches: Mapping[str, Any]) -> str | None:
    """Return the one rank that all groups with collectives outside have in common, None without.

    A rank that stops leaves its peers alone in each of its groups; one group names nobody. Whether
    its recording is the shorter or the longer one does not follow.
    """
    members = [set(one["members"]) for one in _uneven_groups(mismatches)]
    if len(members) < _LEAST_GROUPS:
        return None
    common = set.intersection(*members)
    return str(next(iter(common))) if len(common) == 1 else None


def _trust(trace: TraceSummary, results: Results) -> list[Claim]:
    text = overview_text.recorded(
        trace.ranks, trace.expected_ranks, trace.missing_text, is_sample=trace.is_sample
    )
    measured = details_of(results, "coll_call_num").get("num_traces")
    claims = []
    if measured is not None:
        if measured != trace.ranks:
            text += f" {measured} of them are measured."
        claims.append(Claim("trust", text, "coll_call_num", "num_traces", measured))
    if text := overview_text.matched(results):
        match = details_of(results, "straggler_lag")["match"]
        claims.append(Claim("trust", text, "straggler_lag", "match", match))
    if text := overview_text.clocks(results):
        bar = details_of(results, "clock_offsets")["residual_p95_us"]
        claims.append(Claim("trust", text, "clock_offsets", "residual_p95_us", bar, "us"))
    hidden = details_of(results, "findings").get("overlapping_events")
    if hidden:
        text = overview_text.hidden_elsewhere(hidden)
        claims.append(Claim("trust", text, "findings", "overlapping_events", hidden))
    return claims


_BESIDE: Final = ("run_completeness", "hang_verdict")
"""Metrics of files beside the traces, which are absent nearly everywhere."""


def _missing(trace: TraceSummary, results: Results) -> tuple[str, ...]:
    """Return the reasons of partial and absent results, each once, with the metrics concerned.

    Metrics that have a value all the same are told apart, as the page may state it. What the page
    states elsewhere is left out: which ranks have no file, and what the findings do not know.
    """
    told = set(details_of(results, "findings").get("unknown") or ())
    absent_ranks = f" ranks found; missing {trace.missing_text}"
    found: dict[str, tuple[list[str], list[str]]] = {}
    for name, result in results.items():
        if name not in _BESIDE:
            for _, message in merged_reasons(result.reasons):
                if message not in told and not message.endswith(absent_ranks):
                    names = found.setdefault(message, ([], []))
                    names[result.status != "unavailable"].append(name)
    return tuple(f"{text} ({_concerned(*names)})" for text, names in found.items())


def _concerned(absent: Sequence[str], in_part: Sequence[str]) -> str:
    """Return the metrics that a reason concerns; of many that hold in part their number."""
    parts = [", ".join(absent)] if absent else []
    if in_part:
        few = len(in_part) <= _MOST_NAMED
        parts.append(f"in part: {', '.join(in_part) if few else counted(len(in_part), 'metric')}")
    return "; ".join(parts)
