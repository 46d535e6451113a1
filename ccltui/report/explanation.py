"""Explain a job in about twenty lines: what is slow, who causes it, why, and how sure that is.

Every statement names the metric and the key that it comes from; nothing is computed here.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from ccltui.parsers.safe_text import safe_text
from ccltui.report import overview_text
from ccltui.report.json_document import TraceSummary
from ccltui.report.markdown_text import escaped
from ccltui.report.overview_text import Results, details_of
from ccltui.report.printable_json import printable_json

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
    "run_completeness",
)
"""Metrics that an explanation uses, in the order in which they are computed."""
SCHEMA: Final = "ccltui.explanation/1"
BUDGET: Final = 8192
"""Largest size of the JSON document in bytes, unless another is asked for."""
_LEAST: Final = 3
"""Number of statements that are kept whatever the budget."""


class Claim(Struct, frozen=True):
    """One statement, and where it comes from.

    Attributes:
        about: "verdict", "step", "loss", "evidence" or "trust".
        text: the statement, one sentence.
        metric: name of the metric.
        key: key in the details of its result, "" for the whole result.
        value: the number or word that the sentence states.
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

    def command(self, claim: Claim) -> str:
        """Return the command that prints the value of a statement."""
        return f"ccltui {_quoted(self.path)} --metric {claim.metric} --detail"


def _quoted(path: str) -> str:
    return safe_text(shlex.quote(path))


def explain(trace: TraceSummary, results: Results) -> Explanation:
    """Explain a job from the results of `METRICS`; any of them may be absent."""
    claims: list[Claim] = []
    for add in (_step, _parts, _culprit, _losses, _waiting, _exposed):
        claims += add(results)
    claims += _trust(trace, results)
    found = details_of(results, "verdict")
    return Explanation(
        path=trace.path,
        headline=overview_text.headline(results),
        verdict=found.get("verdict"),
        confidence=found.get("confidence"),
        claims=tuple(claims),
        ruled_out=tuple(f"{one['class']}: {one['why']}" for one in found.get("ruled_out", ())),
        missing=(*map(str, found.get("next", ())), *_missing(results)),
    )


def as_markdown(explanation: Explanation) -> bytes:
    """Return the explanation as Markdown text, UTF-8."""
    lines = [f"# {escaped(explanation.path)}", "", escaped(explanation.headline), ""]
    for claim in explanation.claims:
        source = f"{claim.metric}.{claim.key}" if claim.key else claim.metric
        lines.append(f"- {escaped(claim.text)} (`{source}`)")
    for title, texts in (
        ("Ruled out", explanation.ruled_out),
        ("Missing", explanation.missing),
    ):
        if texts:
            lines += ["", f"{title}:", "", *(f"- {escaped(text)}" for text in texts)]
    used = dict.fromkeys(claim.metric for claim in explanation.claims)
    names = " ".join(f"--metric {name}" for name in used)
    lines += ["", f"    ccltui {_quoted(explanation.path)} {names} --detail", ""]
    return "\n".join(lines).encode()


def as_json(explanation: Explanation, budget: int = BUDGET) -> bytes:
    """Return the explanation as a JSON document of at most ``budget`` bytes.

    Statements are left out from the end where it would be larger; their number is ``left_out``.
    """
    claims = list(explanation.claims)
    while True:
        document = {
            "schema": SCHEMA,
            "path": explanation.path,
            "headline": explanation.headline,
            "verdict": explanation.verdict,
            "confidence": explanation.confidence,
            "claims": [
                {
                    "about": one.about,
                    "text": one.text,
                    "metric": one.metric,
                    "key": one.key,
                    "value": one.value,
                    "unit": one.unit,
                    "command": explanation.command(one),
                }
                for one in claims
            ],
            "ruled_out": list(explanation.ruled_out),
            "missing": list(explanation.missing),
            "left_out": len(explanation.claims) - len(claims),
        }
        text = json.dumps(document, indent=1, ensure_ascii=False, default=str)
        data = f"{printable_json(text)}\n".encode()
        if len(data) <= budget or len(claims) <= _LEAST:
            return data
        claims.pop()


def _culprit(results: Results) -> list[Claim]:
    found = details_of(results, "verdict")
    claims = []
    saves = found.get("saves_ms")
    if saves is not None:
        text = f"Mending what the verdict names saves {saves:.4g} ms a step."
        claims.append(Claim("verdict", text, "verdict", "saves_ms", saves, "ms"))
    claims += [
        Claim("verdict", one.text, one.metric, one.key, one.value, one.unit)
        for one in overview_text.findings(results)
        if one.key.startswith("also.")
    ]
    shares = {name: share for name, share in found.get("shares", {}).items() if share}
    if shares:
        ordered = sorted(shares.items(), key=lambda item: -item[1])
        parts = ", ".join(f"{name} {share:.0%}" for name, share in ordered if share >= 0.005)
        text = f"Of the loss against the repaired step: {parts}."
        claims.append(Claim("evidence", text, "verdict", "shares", dict(ordered)))
    return claims


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
    return [Claim("step", text, "temporal_breakdown", "comp_ratio", found.get("comp_ratio"))]


def _losses(results: Results) -> list[Claim]:
    return [
        Claim("loss", one.text, one.metric, one.key, one.value, one.unit)
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


def _exposed(results: Results) -> list[Claim]:
    by_dim = details_of(results, "exposed_communication").get("by_dim", {})
    known = {name: row["exposed_ms"] for name, row in by_dim.items() if row.get("exposed_ms")}
    if not known:
        return []
    ordered = sorted(known.items(), key=lambda item: -item[1])[:4]
    parts = ", ".join(f"{name} {ms:.4g} ms" for name, ms in ordered)
    text = f"Exposed communication by dimension, mean over ranks: {parts}."
    return [Claim("evidence", text, "exposed_communication", "by_dim", dict(ordered), "ms")]


def _trust(trace: TraceSummary, results: Results) -> list[Claim]:
    text = overview_text.recorded(trace.ranks, trace.world_size)
    claims = [Claim("trust", text, "coll_call_num", "num_traces", trace.ranks)]
    if text := overview_text.matched(results):
        match = details_of(results, "straggler_lag")["match"]
        claims.append(Claim("trust", text, "straggler_lag", "match", match))
    if text := overview_text.clocks(results):
        bar = details_of(results, "clock_offsets")["residual_p95_us"]
        claims.append(Claim("trust", text, "clock_offsets", "residual_p95_us", bar, "us"))
    return claims


def _missing(results: Results) -> list[str]:
    """Return the reasons of partial and absent results, each once, with the metrics concerned."""
    found: dict[str, list[str]] = {}
    for name, result in results.items():
        if name != "run_completeness":
            for reason in result.reasons:
                found.setdefault(reason.message, []).append(name)
    return [f"{text} ({', '.join(names)})" for text, names in found.items()]


WRITERS: Final[Mapping[str, Callable[[Explanation, int], bytes]]] = {
    "md": lambda explanation, _: as_markdown(explanation),
    "json": as_json,
}
"""Writers by format; the number is the budget in bytes."""
