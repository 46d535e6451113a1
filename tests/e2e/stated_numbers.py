"""What the places of one recording state, and where two of them state one number differently.

The places are the results of metrics, the explanation as text and as JSON, the report, and the
Overview, Steps and Ranks of the explorer, which are made here as the explorer makes them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any, Final

from founded_claims import at
from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.metrics.findings.causes.instance_report import describe
from ccltui.metrics.findings.rank_time.step_parts import PARTS
from ccltui.metrics.metric import Metric
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job
from ccltui.parsers.numbers import percent, time_text
from ccltui.report.explanation import Explanation, explain
from ccltui.report.explanation_writers import as_json, as_markdown
from ccltui.report.json_document import TraceSummary
from ccltui.report.page.make_page import METRICS, make_page
from ccltui.report.page.page_parts import Number, Page
from ccltui.report.text_layout import escaped
from ccltui.tui.engine import analysis
from ccltui.tui.engine.analysis import stages
from ccltui.tui.panes.overview_pane import OVERVIEW
from ccltui.tui.panes.ranks_pane import RANKS, SINGLE
from ccltui.tui.panes.steps import STEPS
from ccltui.tui.reducer import adopt
from ccltui.tui.state.answers import Findings, ViewQuery
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session
from ccltui.tui.state.view_state import ViewState
from ccltui.tui.state.wanted_queries import culprits_of_steps, parts_of_steps

ON_PAGES: Final = tuple(
    dict.fromkeys((*METRICS, "gpu_busy", "idle_ratio", "pipeline_bubble", "temporal_breakdown"))
)
"""Metrics whose numbers the pages state, or that readers compare with those."""
ROUNDING: Final = 1e-9
SIZE: Final = (50, 200)
OF_DEVICES: Final = ("ranks", "one_rank")
OF_PARTS: Final = {
    "pipeline_bubble": "bubble",
    "copies": "copies",
    "compute_bound": "compute",
    "exposed_communication": "transfer",
}
"""Classes of findings on a part of the time of devices, by that part."""
NO_LOSS: Final = frozenset({"compute_bound", "cpu_bound", "slow_steps"})
COUNTED_ELSEWHERE: Final = "is counted as computing, "
"""Words of a finding whose time is that of other findings too."""


class Recording(Struct, dict=True):
    """One recording with all that is stated of it, everything computed once.

    ``found`` are contradictions, ``compared`` is the number of comparisons.
    """

    path: Path
    cache: Path
    found: list[str] = field(default_factory=list)
    compared: int = 0

    @cached_property
    def view(self) -> View:
        return View(open_job(self.path, cache_dir=self.cache, jobs=1))

    @cached_property
    def results(self) -> dict[str, Result]:
        return {name: find(name).run(self.view) for name in ON_PAGES}

    def details(self, name: str) -> Mapping[str, Any]:
        result = self.results[name]
        return {} if result.status == "unavailable" else result.details

    @cached_property
    def answer(self) -> Mapping[str, Any]:
        return self.results["findings"].details

    @cached_property
    def trace(self) -> TraceSummary:
        return TraceSummary.of(self.view.job)

    @cached_property
    def explained(self) -> Explanation:
        return explain(self.trace, self.results)

    @cached_property
    def report(self) -> Page:
        measured = [(find(name), self.results[name]) for name in dict.fromkeys(METRICS)]
        return make_page(self.trace, self.view, measured)

    @cached_property
    def scene(self) -> Scene:
        """The explorer when everything is loaded and computed."""
        session = Session(str(self.path)).opened(self.view.job).finished(stopped=False)
        start = Findings(generation=session.generation)
        *_, found = stages(self.view, session.filter, start, tuple(map(self._known, self.results)))
        scene = adopt(Scene(session, ViewState()), found)
        for pane in (STEPS, RANKS):
            for query in pane.queries(scene):
                assert isinstance(query, ViewQuery)
                answered = analysis.answer(self.view, scene, query)
                scene = replace(scene, answers=scene.answers.with_result(answered))
        return scene

    def _known(self, name: str) -> Metric:
        return replace(find(name), compute=lambda _: self.results[name])

    def same(self, name: str, *values: object) -> None:
        """Hold values to be one: numbers but for the last digits of a sum, all others exactly."""
        self.compared += 1
        numbers = [one for one in values if isinstance(one, int | float)]
        if len(numbers) == len(values):
            most = max(map(abs, numbers))
            is_one = max(numbers) - min(numbers) <= ROUNDING * max(1.0, most)
        else:
            is_one = all(one == values[0] for one in values)
        if not is_one:
            self.found.append(f"{name}: {' is not '.join(f'{one!r:.120}' for one in values)}")

    def within(self, name: str, part: float, whole: float) -> None:
        """Hold a number to be a part of another."""
        self.compared += 1
        if not -ROUNDING <= part <= whole + ROUNDING * max(1.0, abs(whole)):
            self.found.append(f"{name}: {part} is no part of {whole}")

    def says(self, where: str, text: str, *words: str) -> None:
        """Hold a text to have words in it."""
        for word in words:
            self.compared += 1
            if word not in text:
                self.found.append(f"{where} lacks «{word}»: {text[:200]}")


def check_all(one: Recording) -> None:
    """Compare all places; what differs is in ``found``."""
    for check in (_results, _partition, _findings, _explanation, _report):
        check(one)
    if one.view.job.ranks:
        for check in (_overview, _steps, _ranks, _places):
            check(one)


def _results(one: Recording) -> None:
    """Every result has a value, or a reason that is no defect."""
    for name, result in one.results.items():
        one.same(f"defect of {name}", result.reason == "internal_error", False)


def _partition(one: Recording) -> None:
    """Shares of one whole add up to it, in the job and on every rank, in all metrics of it."""
    shares, composed = one.answer.get("shares") or {}, one.details("step_composition")
    ranks = one.answer.get("per_rank") or {}
    wholes = [shares, *(_without(row, "waited_for") for row in ranks.values())]
    for whole in filter(None, wholes):
        one.same("shares add up to 1", sum(whole.values()), 1.0)
    if not composed or one.answer.get("recording") not in OF_DEVICES:
        return
    kinds = Counter[str]()
    for row in composed["parts"]:
        kinds[_kind(row["kind"])] += row["share"]
    one.same("kinds", {k for k in kinds if kinds[k]}, set(_without(shares, "other_groups")))
    for kind, share in _without(shares, "other_groups").items():
        one.same(f"{kind} of the job", share, kinds[kind])
        for label, row in composed["per_rank"].items():
            own = sum(value for name, value in row.items() if _kind(name) == kind)
            one.same(f"{kind} of rank {label}", ranks[label][kind], own)
    lost = one.details("fix_first")
    one.same("lost", lost["lost_ratio"], sum(row["share"] for row in lost["losses"]))
    one.same("computing", composed["compute_ratio"], shares.get("compute", 0.0))
    one.same("idle", shares.get("idle", 0.0), one.details("idle_ratio")["idle_ratio"])
    one.same("busy", 1 - shares.get("idle", 0.0), one.details("gpu_busy")["gpu_busy_ratio"])
    exposed = one.details("exposed_communication")
    if exposed and composed["window_ms"] and "copies" not in shares:  # a copy hides communication
        apart = sum(shares.get(kind, 0.0) for kind in ("waiting", "transfer", "bubble"))
        one.same("exposed", exposed["exposed_pct_of_step"] / 100, apart)
    if composed["step_ms"] is not None:
        one.same("step", composed["step_ms"], one.answer["period_ms"])


def _without(row: Mapping[str, Any], name: str) -> dict[str, float]:
    return {key: value for key, value in row.items() if key != name}


def _kind(kind: str) -> str:
    return "transfer" if kind == "communication" else kind


def _findings(one: Recording) -> None:
    """Findings are parts of the whole, their sentences state their numbers, and sources agree."""
    rows = one.answer.get("findings") or ()
    timed = [row for row in rows if row["share"] is not None and row["cost_ms"] is not None]
    for row in timed:
        one.within(row["label"], row["share"], 1.0)
        one.says(row["label"], row["text"], percent(row["share"]))
        _cost(one, row)
    lost = [row for row in timed if row["class"] not in NO_LOSS]
    apart = [row["share"] for row in lost if COUNTED_ELSEWHERE not in row["more"]]
    one.within("all losses", sum(apart), 1.0)
    shares = one.answer.get("shares") or {}
    if one.answer.get("recording") in OF_DEVICES and shares:
        for kind, part in OF_PARTS.items():
            own = [row["share"] for row in timed if row["class"] == kind]
            one.within(kind, sum(own), shares.get(part, 0.0))
            if own and kind != "exposed_communication":  # which has a finding for each dimension
                one.same(kind, own[0], shares.get(part, 0.0))
    for row in rows:
        for cited in row["evidence"]:
            _cited(one, cited["metric"], cited["key"], cited["value"])


def _cost(one: Recording, row: Mapping[str, Any]) -> None:
    """The cost is the share of the period; what is saved is said, and why it is not the cost."""
    period = one.answer["period_ms"]
    one.same(row["label"], row["cost_ms"], row["share"] * period)
    if row["text"].endswith((" a step.", " in all.")) and row["class"] not in NO_LOSS:
        one.says(row["label"], row["text"], time_text(row["cost_ms"]))
    saves, bounds = row["saves_ms"], row["saves_bounds_ms"]
    if saves is None or row["class"] == "slow_steps":
        return
    one.within(f"saving of {row['label']}", saves, row["cost_ms"])
    if bounds:
        one.within(f"least saving of {row['label']}", bounds[0], saves)
        one.within(f"most saving of {row['label']}", saves, bounds[1])
        one.says(row["label"], row["more"], time_text(bounds[1]))
    one.says(row["label"], row["more"], time_text(saves) if saves else "saves nothing")
    if saves and abs(saves - row["cost_ms"]) > 0.1 * row["cost_ms"]:
        one.says(row["label"], row["more"], f"({percent(saves / period)}): ")


def _cited(one: Recording, metric: str, key: str, value: object) -> None:
    """The value that a place cites is that of the metric at its key."""
    result = one.results.get(metric) or find(metric).run(one.view)
    try:
        stated = at(result.details, key)
        if isinstance(value, Mapping):
            stated = {name: at(stated, name) for name in value}
    except (KeyError, IndexError, ValueError, TypeError) as error:
        stated = repr(error)
    one.same(f"{metric}.{key}", _plain(value), _plain(stated))


def _plain(value: object) -> object:
    return json.loads(json.dumps(value, default=str))


def _explanation(one: Recording) -> None:
    """Text and JSON state the findings, and each claim the value of its metric."""
    text = as_markdown(one.explained).decode()
    document = json.loads(as_json(one.explained, 1 << 20))
    headline = one.answer.get("headline")
    if headline:
        one.same("headline", headline, document["headline"], one.answer["findings"][0]["text"])
        one.says("explain", text, escaped(headline))
    for row, told in zip(one.explained.findings, document["findings"], strict=True):
        one.same("text of a finding", row["text"], told["text"])
        one.says("explain", text, escaped(row["text"]))
    for claim in one.explained.claims:
        _cited(one, claim.metric, claim.key, claim.value)
        one.says("explain", text, escaped(claim.text))
        if (claim.metric, claim.key) == ("step_composition", "parts"):
            one.says("the claim", claim.text, *_legend(one))
        elif (claim.metric, claim.key) == ("step_composition", "per_rank"):
            assert isinstance(claim.value, Mapping)
            least, most = min(claim.value.values()), max(claim.value.values())
            ends = (percent(share).removesuffix(" %") for share in (least, most))
            one.says("the claim on ranks", claim.text, *ends)
            mean = one.answer["shares"].get("compute", 0.0)
            one.within("computing of the job, beyond the least", mean - least, most - least)
        elif claim.metric == "iter_time":
            one.says("the claim", claim.text, time_text(one.answer["period_ms"]))
    verdict = one.details("verdict")
    one.same("confidence of the verdict", document["confidence"], verdict.get("confidence"))
    for key in document["cost"].keys() - {"metric"}:
        one.same(f"cost.{key}", document["cost"][key], verdict.get(key))
    for row, stated in zip(document["findings"], one.answer.get("findings") or (), strict=False):
        for key in ("share", "cost_ms", "saves_ms", "saves_bounds_ms", "sure"):
            one.same(f"{key} of {row['label']} in JSON", row[key], _plain(stated[key]))


def _legend(one: Recording) -> list[str]:
    """Return the kinds of time of devices as every page names them."""
    shares = _without(one.answer["shares"], "other_groups")
    return [f"{kind} {percent(share)}" for kind, share in shares.items() if share]


def _report(one: Recording) -> None:
    """Every number of the report is at its key in the details of its metric."""
    if one.answer.get("headline"):
        one.same("headline of the report", one.report.headline, one.explained.headline)
    for number in _numbers(one.report.sections):
        if number.source in one.results:
            keys = number.key.split("/")[1:]
            stated: Any = one.details(number.source)
            for key in (key.replace("~1", "/").replace("~0", "~") for key in keys):
                stated = _below(stated, key)
            if not isinstance(number.value, Mapping):
                one.same(f"{number.source}{number.key}", number.value, stated)


def _below(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(key)
    is_place = isinstance(value, Sequence) and int(key) < len(value)
    return value[int(key)] if is_place else None


def _numbers(part: object) -> Iterator[Number]:
    """Yield all numbers below a part of a page."""
    if isinstance(part, Number):
        yield part
    elif isinstance(part, list | tuple):
        for item in part:
            yield from _numbers(item)
    else:
        for name in getattr(part, "__struct_fields__", ()):
            yield from _numbers(getattr(part, name))


def _overview(one: Recording) -> None:
    """The first screen states the answer's numbers: kinds of time, findings, and the step."""
    planes = OVERVIEW.paint(one.scene, *SIZE)
    shown = " ".join(" ".join(planes.row_text(row) for row in range(SIZE[0])).split())
    one.says("Overview", shown, one.answer["headline"][:50])
    if one.answer["shares"]:
        one.says("Overview", shown, *_legend(one))
    if one.answer["shares"] and one.answer["period_ms"] is not None:
        one.says("Overview", shown, time_text(one.answer["period_ms"]))
    if len(one.answer["findings"]) > 1:
        for row in one.answer["findings"][:3]:
            one.says("Overview", shown, *filter(None, [row["share"] and percent(row["share"])]))


def _steps(one: Recording) -> None:
    """Steps has the longest first, the mean of step_composition, and its culprits elsewhere too."""
    parts, culprits = parts_of_steps(one.scene), culprits_of_steps(one.scene)
    if parts is None or not len(parts):
        return
    lengths = [row.length_ns for row in STEPS.rows(one.scene)]
    one.same("order of Steps", lengths, sorted(lengths, reverse=True))
    composed = one.details("step_composition")
    if composed.get("step_ms") is not None and "other_groups" not in one.answer["shares"]:
        one.same("mean step", parts.length_ns.mean() / 1e6, composed["step_ms"])
        shares = parts.parts_ns.sum(axis=(1, 2)) / parts.parts_ns.sum()
        kinds = dict(zip(PARTS, shares.tolist(), strict=True))
        kinds["compute"] += kinds.pop("overlapped")
        for kind, share in kinds.items():
            one.same(f"{kind} in Steps", share, one.answer["shares"].get(kind, 0.0))
    for row in one.details("step_variability").get("slow_steps") or ():
        one.says("the slow step", row["sentence"], f"step {row['step']} takes")
        if culprits is not None and row["rank"] is not None and row["wait_ms"] is not None:
            one.same(f"culprit of step {row['step']}", row["rank"], culprits.of(row["step"]).label)


def _ranks(one: Recording) -> None:
    """Ranks lists the waits of straggler_lag, all of them.

    First those that findings name, in the order of the findings; then the largest wait.
    """
    lag, scene = one.details("straggler_lag"), one.scene
    if len(scene.findings.lanes) < 2 or not lag:
        return
    scene = scene.with_state(RANKS.changed(scene, kind=SINGLE))
    listed = [row for row in RANKS.rows(scene) if row.rank is not None]
    order = [(row.number or inf, -(row.waits.caused_us or 0.0)) for row in listed]
    one.same("order of Ranks", order, sorted(order))
    rows = [row.rank for row in listed if row.rank is not None]
    one.same("ranks of Ranks", {rank.label for rank in rows}, set(scene.findings.lanes))
    for rank in rows:
        blame = lag["blame"].get(rank.label)
        if blame is not None:
            one.same(f"caused by {rank.label}", rank.caused_us, blame["caused_wait_us"])


def _places(one: Recording) -> None:
    """The collective that a finding on ranks opens blames one of them, and not the schedule."""
    for row in one.answer.get("findings") or ():
        place, ranks = row["place"] or {}, row["where"]["ranks"]
        if ranks and "group_number" in place and row["sure"]["who"] in ("medium", "high"):
            opened = describe(one.view, place["group_number"], place["index"])
            one.says("the opened collective", " ".join(ranks), str(opened.last))
            one.same("blameless", "no fault" in (opened.why or ""), False)
