"""Sentences about a job that the explorer's Overview and ``ccltui explain`` share.

Every number in them is one of a metric's result; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from ccltui.metrics.findings.words import time_text
from ccltui.metrics.result import Result
from ccltui.parsers.units import in_ms

Results = Mapping[str, Result]

SHOWN_LOSSES: Final = 3
SHOWN_STEPS: Final = 3
"""Number of slow steps among the findings, the largest excess first."""
_SPAN_TOLERANCE: Final = 0.1
"""Difference between markers and device work of a step above which both are stated."""
_IDLE: Final = {
    "data_loading": "data loading",
    "checkpoint": "checkpoint",
    "garbage_collection": "garbage collection",
    "compilation": "compilation",
    "allocation": "allocation",
    "synchronisation": "synchronisation",
    "operators": "host operators",
    "between_markers": "host between steps",
    "host_other": "host, not recorded",
    "launch_latency": "launch latency",
    "between_kernels": "between kernels",
    "dependency": "dependency",
    "unknown": "cause unknown",
}


_DIFFERENCES: Final = {
    "stage": "uneven pipeline stages",
    "worker": "uneven ranks of a stage",
    "varying": "uneven steps or micro-batches",
    "communication": "slow transfers",
    "host": "waits for hosts",
}
"""Words for the kinds of differences that a verdict of nobody is about."""


class Finding(Struct, frozen=True):
    """One sentence about what costs time, and where its numbers come from.

    Attributes:
        text: the sentence.
        metric: name of the metric, and ``key`` the key in its details.
        key: see ``metric``.
        value: the number that the sentence states first, None without one; ``unit`` is its unit.
        unit: see ``value``.
        evidence: the place that shows it, as `fix_first` describes it, None where there is none.
        kind: kind of the part of `step_composition` that the time is in, "" where there is none.
    """

    text: str
    metric: str
    key: str
    value: float | None = None
    unit: str = "ms"
    evidence: Mapping[str, Any] | None = None
    kind: str = ""


def details_of(results: Results, name: str) -> Mapping[str, Any]:
    """Return the details of a result that has a value, empty for any other."""
    result = results.get(name)
    return {} if result is None or result.status == "unavailable" else result.details


def headline(results: Results) -> str:
    """Return the verdict: what makes the job slow, what it costs, and how sure that is."""
    result = results.get("verdict")
    if result is None:
        return "No verdict was computed."
    if result.status == "unavailable":
        why = result.reasons[0].message if result.reasons else "no reason given"
        return f"I cannot tell who makes the job slow, because {why}."
    found = result.details
    text = str(found["why"])
    if found["verdict"] == "inconclusive":
        text = f"I cannot tell who makes the job slow: {text}"
    parts = [f"{text[:1].upper()}{text[1:].rstrip('.')}."]
    if found["verdict"] != "no_straggler":
        # The cost of the culprit comes first: the loss has all other differences in it too. It may
        # save more than the loss, which has no wait before the first work of a recording.
        parts.append(saving(results))
        if (found.get("saves_ms") or 0.0) <= found["loss_ms"]:
            parts.append(
                f"All differences and waits for hosts cost {in_ms(found['loss_ms'])}, "
                f"{found['loss_pct']:.1f} % of {period(results)}."
            )
    if found.get("confidence"):
        parts.append(f"Confidence: {found['confidence']}.")
    return " ".join(filter(None, parts))


def saving(results: Results) -> str:
    """Return what mending the cause saves, "" where the verdict does not tell."""
    found = details_of(results, "verdict")
    saves, share = found.get("saves_ms"), found.get("saves_pct")
    if saves is None:
        return ""
    # A loss in the list is that of one rank by itself; the verdict may be of several together.
    everywhere = "" if found.get("culprit") else "on all ranks together "
    return f"Without that {everywhere}{period(results)} takes {in_ms(saves)} less" + (
        "." if share is None else f" (-{share:.1f} %)."
    )


def period(results: Results) -> str:
    """Return what the times of the verdict are those of: "a step" or "the window"."""
    return str(details_of(results, "verdict").get("period") or "a step")


def per_period(results: Results) -> str:
    """Return the words behind a time of the verdict: "a step" or "of the window"."""
    name = period(results)
    return name if name == "a step" else f"of {name}"


def step_time(results: Results) -> str:
    """Return the step time with its spread and the number of steps, "" where it is unknown."""
    found = details_of(results, "iter_time")
    mean, count = found.get("avg_iter_time_ms"), found.get("num_iterations")
    if mean is None:
        return ""
    spread = found.get("std_iter_time_ms")
    device = details_of(results, "step_composition").get("step_ms")
    # Markers end when the host has launched the work, which may be long before it is done.
    apart = device is not None and abs(device - mean) > _SPAN_TOLERANCE * max(device, mean)
    several = count != 1
    text = f"The markers of a step last {in_ms(mean)}" if apart else f"A step takes {in_ms(mean)}"
    text += (
        f", standard deviation {in_ms(spread, digits=3)}" if several and spread is not None else ""
    )
    text += f" (n = {count})"
    median = found.get("p50_iter_time_ms")
    text += f"; median {in_ms(median)}" if several and median is not None else ""
    slowest = details_of(results, "step_variability").get("slowest_step")
    if several and slowest and slowest.get("iter_time_ms") is not None:
        text += f"; slowest {in_ms(slowest['iter_time_ms'])}, step {slowest['step']}"
    return f"{text}; on the devices a step takes {in_ms(device or 0.0)}." if apart else f"{text}."


def part_name(part: Mapping[str, Any]) -> str:
    """Return the name of a part of `step_composition` for a legend."""
    kind, name = part["kind"], str(part["part"])
    if kind == "communication":
        return "exposed communication" if name == "unknown" else f"exposed {name}"
    if kind == "waiting":
        return "waiting for late ranks"
    return f"idle: {_IDLE.get(name, name)}" if kind == "idle" else name


def findings(results: Results) -> list[Finding]:
    """Return what costs time: the culprit, the largest losses, slow steps, other candidates."""
    return [
        *_culprit(results),
        *_losses(results),
        *_slow_steps(results),
        *_candidates(results),
    ]


def _culprit(results: Results) -> list[Finding]:
    found = details_of(results, "verdict")
    culprit = found.get("culprit")
    if not culprit:
        return []
    key = "loss_ms" if found.get("saves_ms") is None else "saves_ms"
    place = _place_of(results, culprit)
    return [Finding(headline(results), "verdict", key, found.get(key), evidence=place)]


def _place_of(results: Results, culprit: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return where the culprit is seen: the wait it causes, else its first rank or step."""
    ranks = [str(label) for label in culprit.get("ranks") or ()]
    for row in details_of(results, "fix_first").get("losses") or ():
        if row.get("kind") == "straggler" and row.get("what") in ranks and row["evidence"]:
            evidence: Mapping[str, Any] = row["evidence"]
            return evidence
    if not ranks:
        return None
    steps = culprit.get("steps")
    return {"rank": ranks[0], "step": steps[0] if isinstance(steps, list) and steps else None}


def _losses(results: Results) -> list[Finding]:
    rows: Sequence[Mapping[str, Any]] = details_of(results, "fix_first").get("losses") or ()
    return [
        Finding(
            f"{row['sentence']}{_without(results, row)}.",
            "fix_first",
            f"losses.{number}",
            row.get("lost_ms"),
            evidence=row["evidence"],
            kind="waiting" if row.get("kind") == "straggler" else str(row.get("kind", "")),
        )
        for number, row in enumerate(rows[:SHOWN_LOSSES])
    ]


def _slow_steps(results: Results) -> list[Finding]:
    rows: Sequence[Mapping[str, Any]] = (
        details_of(results, "step_variability").get("slow_steps") or ()
    )
    found = []
    for number, row in enumerate(rows[:SHOWN_STEPS]):
        text = str(row["sentence"])
        text = f"{text[:1].upper()}{text[1:]}. Confidence: {row['confidence']}."
        found.append(
            Finding(
                text,
                "step_variability",
                f"slow_steps.{number}",
                row["over_ms"],
                evidence=row["evidence"],
                kind="waiting" if row["rank"] is not None else "",
            )
        )
    return found


def _without(results: Results, row: Mapping[str, Any]) -> str:
    """Return what is saved if a straggler is in time.

    "" where that was not replayed, and where the verdict states it of the same rank.
    """
    verdict = details_of(results, "verdict")
    named = (verdict.get("culprit") or {}).get("ranks")
    stated = verdict.get("saves_ms") is not None and named == [row["what"]]
    if row.get("kind") != "straggler" or stated:
        return ""
    replays = details_of(results, "what_if_no_straggler").get("without_rank") or {}
    found = replays.get(row["what"])
    if not found or found.get("saved_pct") is None:
        return ""
    less = f"{in_ms(found['saved_ms'])} less (-{found['saved_pct']:.1f} %)"
    return f"; if it alone came in time a step would take {less}"


def _candidates(results: Results) -> list[Finding]:
    found = []
    for number, other in enumerate(details_of(results, "verdict").get("also") or ()):
        saves, culprit = other.get("saves_ms"), other.get("culprit")
        cost = "" if saves is None else f", {in_ms(saves)} {per_period(results)}"
        text = f"Also possible: {other['verdict']}{_who(culprit)}{cost}."
        if other["verdict"] == "inconclusive":
            what = _DIFFERENCES.get(str(other.get("rung")), "some differences")
            text = f"Also possible: {what}{cost}."
        is_here = bool(culprit) and culprit.get("recorded", True)
        if culprit and not is_here:
            most = "" if saves is None else f", at most {in_ms(saves)} {per_period(results)}"
            who = ", ".join(culprit["ranks"][:4])
            text = f"Also possible: the others wait for rank {who}, which is not recorded{most}."
        place = _place_of(results, culprit) if is_here else None
        found.append(Finding(text, "verdict", f"also.{number}", saves, evidence=place))
    return found


def _who(culprit: Mapping[str, Any] | None) -> str:
    if culprit is None:
        return ""
    if culprit.get("ranks"):
        return f" of rank {', '.join(culprit['ranks'][:4])}"
    for key in ("stage", "group", "host"):
        if culprit.get(key) is not None:
            return f" of {key} {culprit[key]}"
    return ""


def lost(results: Results) -> str:
    """Return the heading of the losses: the share of time without computation, or why not."""
    result = results.get("fix_first")
    if result is None:
        return "fix first: …"
    if result.value is None:
        reason = result.reasons[0].message if result.reasons else "no reason given"
        return f"fix first: unknown: {reason}"
    if not result.details["losses"]:
        return "fix first: nothing is lost: a kernel computes all the time"
    total = result.details["lost_ratio"]
    span = result.details.get("window_ms")
    of = "the time" if span is None else f"{in_ms(span)} per rank"
    return f"fix first: no kernel computes in {total:.1%} of {of}; most is lost to"


_LEAST_ONE_SIDED: Final = 0.1
"""Part of the largest wait on the board from which on waiting that it leaves out is stated."""


def one_sided_wait(results: Results) -> str:
    """Return what the waits by rank leave out, "" where that is little."""
    details = details_of(results, "straggler_lag")
    left_out = details.get("one_sided_wait_us") or 0.0
    caused = [row["caused_wait_us"] for row in (details.get("blame") or {}).values()]
    if left_out <= _LEAST_ONE_SIDED * max(caused, default=0.0) or not left_out:
        return ""
    return (
        f"These waits are at collectives that all members wait for; at broadcasts they wait "
        f"{in_ms(left_out / 1000)} more, in sum."
    )


def recorded(
    ranks: int, world_size: int | None, missing: str = "", *, is_sample: bool = False
) -> str:
    """Return how many of the ranks are recorded, and which are not.

    Args:
        ranks: Number of ranks that are read.
        world_size: Number of ranks of the job, None where nothing states it.
        missing: The ranks that are not read, as ranges.
        is_sample: Whether files of other ranks are not read on purpose.
    """
    of = "" if world_size is None else f"{ranks} of "
    whole = ranks if world_size is None else world_size
    noun = "rank" if whole == 1 else "ranks"
    what = f"{of}{whole} {noun} {'is' if ranks == 1 else 'are'}"
    if is_sample:
        absent = f", not {missing}" if missing else ""
        return f"{what} read, a sample{absent}: a rank that is not read is never named."
    return f"{what} recorded" + (f"; missing {missing}." if missing else ".")


def matched(results: Results) -> str:
    """Return how many collectives are matched and how surely, "" where none are."""
    match = details_of(results, "straggler_lag").get("match") or {}
    sure = [f"{match[level]} {level}" for level in ("high", "medium", "low") if match.get(level)]
    if not sure:
        return ""
    left = [f"{match[kind]} {kind}" for kind in ("mismatched", "incomplete") if match.get(kind)]
    apart = f"; {', '.join(left)}" if left else ""
    return f"Collectives matched: {', '.join(sure)} confidence{apart}."


def clocks(results: Results) -> str:
    """Return how precisely the clocks are known, "" where they are not."""
    bar = details_of(results, "clock_offsets").get("residual_p95_us")
    if bar is None:
        return ""
    return f"Clocks agree within {time_text(bar / 1000)}." if bar >= 1 else "Clocks are aligned."
