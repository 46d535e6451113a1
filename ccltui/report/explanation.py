"""Explain a job in about twenty lines: what is slow, who causes it, why, and how sure that is.

Every statement names the metric and the key that it comes from; nothing is computed here.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from ccltui.metrics.reason_text import merged_reasons
from ccltui.parsers.safe_text import safe_text
from ccltui.parsers.units import in_ms
from ccltui.report import overview_text, side_sentences
from ccltui.report.json_document import TraceSummary
from ccltui.report.overview_text import Finding, Results, details_of
from ccltui.report.what_to_do import what_to_do

METRICS: Final = (
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
    *side_sentences.METRICS,
)
"""Metrics that an explanation uses, in the order in which they are computed."""
BUDGET: Final = 8192
"""Largest size of the JSON document in bytes, unless another is asked for."""
_MOST_LISTED: Final = 16
"""Ranks or steps of a culprit that are listed."""
_MOST_REPAIRS: Final = 3
_LEAST_REPAIR: Final = 0.05
"""Share of the loss from which on a single candidate is worth naming."""
_MOST_MISMATCHES: Final = 2
_MOST_GROUPS: Final = 4
_LEAST_GROUPS: Final = 2
_OF_ROW: Final = {"also": "saves_ms", "losses": "lost_ms", "slow_steps": "over_ms"}
"""Key of the number of a row of a list, for the statements that are made from rows."""


class Claim(Struct, frozen=True):
    """One statement, and where it comes from.

    Attributes:
        about: "verdict", "step", "loss", "evidence" or "trust".
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
    """Statements about what slows a job down, with their sources.

    Attributes:
        path: the directory as given.
        headline: the verdict in one sentence.
        verdict: its class, None where there is none.
        confidence: "high", "medium", "low", or None.
        culprit: who causes it, as the metric ``verdict`` states it, None where nobody is named.
        cost: numbers of the headline by their keys in the metric ``verdict``.
        actions: what to do, the most important first.
        ranks: number of ranks that are recorded.
        world_size: number of ranks of the job, None where nothing states it.
        options: command-line options of the selection that was explained.
        claims: statements, the most important first.
        ruled_out: causes that are excluded, with the reason.
        missing: what would make it surer, or what is not there.
    """

    path: str
    headline: str
    verdict: str | None
    confidence: str | None
    claims: tuple[Claim, ...]
    ruled_out: tuple[str, ...]
    missing: tuple[str, ...]
    culprit: Mapping[str, Any] | None = None
    cost: Mapping[str, float] = {}
    actions: tuple[str, ...] = ()
    ranks: int = 0
    world_size: int | None = None
    options: tuple[str, ...] = ()

    def command(self, claim: Claim) -> str:
        """Return the command that prints the value of a statement."""
        return self._command(f"--metric {claim.metric}")

    def all_commands(self) -> str:
        """Return the command that prints all metrics of the statements."""
        used = dict.fromkeys(claim.metric for claim in self.claims)
        return self._command(*(f"--metric {name}" for name in used))

    def _command(self, *metrics: str) -> str:
        options = map(quoted, self.options)
        return " ".join(["ccltui", quoted(self.path), *metrics, "--detail", *options])


def quoted(path: str) -> str:
    """Return a path or an option for a shell, safe to print."""
    return safe_text(shlex.quote(path))


def explain(trace: TraceSummary, results: Results, options: Sequence[str] = ()) -> Explanation:
    """Explain a job from the results of `METRICS`; any of them may be absent.

    Args:
        trace: what was opened.
        results: results by name of the metric.
        options: command-line options that select the same part of the job.
    """
    claims: list[Claim] = []
    for add in (_step, _parts, _culprit, _losses, _waiting, _exposed, _one_sided):
        claims += add(results)
    said = side_sentences.side_sentences(results) if not trace.ranks else ()
    claims += [Claim("verdict", *structs.astuple(one)) for one in said]
    claims += _trust(trace, results)
    found = details_of(results, "verdict")
    return Explanation(
        path=trace.path,
        headline=said[0].text if said else overview_text.headline(results),
        verdict=found.get("verdict"),
        confidence=found.get("confidence"),
        claims=tuple(claims),
        ruled_out=tuple(f"{one['class']}: {one['why']}" for one in found.get("ruled_out", ())),
        missing=(*map(str, found.get("next", ())), *_missing(results, is_opened=not said)),
        culprit=_stated(found.get("culprit")),
        cost={key: found[key] for key in _COSTS if found.get(key) is not None},
        actions=(side_sentences.side_actions(results) if said else ())
        or what_to_do(
            found,
            details_of(results, "blame_chain"),
            apart=_rank_apart(details_of(results, "collective_mismatches")),
            is_opened=trace.ranks > 0,
        ),
        ranks=trace.ranks,
        world_size=trace.world_size,
        options=tuple(options),
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


def _claim(about: str, finding: Finding) -> Claim:
    """Return a finding as a statement whose key leads to its value."""
    first, _, row = finding.key.partition(".")
    key = f"{finding.key}.{_OF_ROW[first]}" if row.isdigit() and first in _OF_ROW else finding.key
    return Claim(about, finding.text, finding.metric, key, finding.value, finding.unit)


def _culprit(results: Results) -> list[Claim]:
    found = details_of(results, "verdict")
    claims = []
    saves = found.get("saves_ms")
    if saves is not None:
        per = overview_text.per_period(results)
        text = f"Mending what the verdict names saves {in_ms(saves)} {per}."
        claims.append(Claim("verdict", text, "verdict", "saves_ms", saves, "ms"))
    claims += [
        _claim("verdict", one)
        for one in overview_text.findings(results)
        if one.key.startswith("also.")
    ]
    shares = {name: share for name, share in found.get("shares", {}).items() if share}
    if shares:
        ordered = sorted(shares.items(), key=lambda item: -item[1])
        parts = ", ".join(f"{name} {share:.0%}" for name, share in ordered if share >= 0.005)
        text = f"Of the loss against the repaired step: {parts}."
        claims.append(Claim("evidence", text, "verdict", "shares", dict(ordered)))
    return [*claims, *_repairs(found)]


def _repairs(verdict: Mapping[str, Any]) -> list[Claim]:
    """Return how much of the loss each candidate alone would give back, the largest first."""
    gains = (verdict.get("evidence") or {}).get("gains") or {}
    ordered = sorted(gains.items(), key=lambda item: -item[1])[:_MOST_REPAIRS]
    known = {name: share for name, share in ordered if share >= _LEAST_REPAIR}
    if not known:
        return []
    parts = ", ".join(f"{name} {share:.0%}" for name, share in known.items())
    text = f"Of the loss, setting back one alone would save: {parts}."
    return [Claim("evidence", text, "verdict", "evidence.gains", known, "ratio")]


def _step(results: Results) -> list[Claim]:
    text = overview_text.step_time(results)
    if not text:
        return []
    mean = details_of(results, "iter_time")["avg_iter_time_ms"]
    return [Claim("step", text, "iter_time", "avg_iter_time_ms", mean, "ms")]


def _parts(results: Results) -> list[Claim]:
    found = details_of(results, "temporal_breakdown")
    names = {
        "comp_only_ratio": "computation alone",
        "overlap_ratio": "computation beside communication",
        "comm_only_ratio": "exposed communication",
        "mem_only_ratio": "copies",
        "idle_ratio": "idle",
    }
    known = {key: found[key] for key in names if found.get(key) is not None}
    if not known:
        return []
    parts = ", ".join(f"{names[key]} {share:.1%}" for key, share in known.items())
    text = f"Time of the device: {parts}."
    return [Claim("step", text, "temporal_breakdown", "", known, "ratio")]


def _losses(results: Results) -> list[Claim]:
    return [
        _claim("loss", one)
        for one in overview_text.findings(results)
        if one.metric in ("fix_first", "step_variability")
    ]


def _waiting(results: Results) -> list[Claim]:
    claims = []
    lag = details_of(results, "straggler_lag")
    if lag.get("mean_lag_us") is not None:
        text = (
            f"Between the first and the last arrival at a collective lie {lag['mean_lag_us']:.4g} "
            f"us on average, over {lag['num_collectives']} collectives."
        )
        claims.append(
            Claim("evidence", text, "straggler_lag", "mean_lag_us", lag["mean_lag_us"], "us")
        )
    chain = details_of(results, "blame_chain")
    if chain.get("root_rank") is not None and chain.get("root_share") is not None:
        text = (
            f"{chain['root_share']:.0%} of the waiting at collectives began with rank "
            f"{chain['root_rank']} ({chain['root_cause']})."
        )
        claims.append(
            Claim("evidence", text, "blame_chain", "root_share", chain["root_share"], "ratio")
        )
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
            f"{outside} collectives are on some ranks only, before the first or after the last "
            "that all ranks of the group have: recordings begin or end apart, or a rank stopped. "
            f"Groups: {named}."
        )
        text += "" if apart is None else f" Rank {apart} alone is in all of them."
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


def _exposed(results: Results) -> list[Claim]:
    by_dim = details_of(results, "exposed_communication").get("by_dim", {})
    known = {name: row["exposed_ms"] for name, row in by_dim.items() if row.get("exposed_ms")}
    if not known:
        return []
    ordered = sorted(known.items(), key=lambda item: -item[1])[:4]
    parts = ", ".join(f"{name} {in_ms(ms)}" for name, ms in ordered)
    text = f"Exposed communication by dimension, mean over ranks: {parts}."
    value = {f"{name}.exposed_ms": ms for name, ms in ordered}
    return [Claim("evidence", text, "exposed_communication", "by_dim", value, "ms")]


def _trust(trace: TraceSummary, results: Results) -> list[Claim]:
    text = overview_text.recorded(
        trace.ranks, trace.expected_ranks, trace.missing_text, is_sample=trace.is_sample
    )
    measured = details_of(results, "coll_call_num").get("num_traces")
    claims = []
    if measured is not None:
        if measured != trace.ranks:
            text = f"{text} {measured} of them are measured."
        claims.append(Claim("trust", text, "coll_call_num", "num_traces", measured))
    if text := overview_text.matched(results):
        match = details_of(results, "straggler_lag")["match"]
        claims.append(Claim("trust", text, "straggler_lag", "match", match))
    if text := overview_text.clocks(results):
        bar = details_of(results, "clock_offsets")["residual_p95_us"]
        claims.append(Claim("trust", text, "clock_offsets", "residual_p95_us", bar, "us"))
    return claims


def _missing(results: Results, *, is_opened: bool) -> list[str]:
    """Return the reasons of partial and absent results, each once, with the metrics concerned.

    Metrics of files beside the traces are absent nearly everywhere: only their gaps are named.
    """
    found: dict[str, list[str]] = {}
    for name, result in results.items():
        is_beside = name == "run_completeness" or name in side_sentences.METRICS
        if not is_beside or (result.value is not None and not is_opened):
            for _, message in merged_reasons(result.reasons):
                found.setdefault(message, []).append(name)
    return [f"{text} ({', '.join(names)})" for text, names in found.items()]
