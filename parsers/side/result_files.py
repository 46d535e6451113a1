"""Results that a program writes beside its trace: loads of experts, and serving benchmarks.

How many tokens each expert of a mixture got is read from files of three known shapes:

- gate logs: ``{"expert_loads": [[load of each expert], …]}``, one list a step;
- statistics: ``{"model.layers.3.mlp": {"expert_counts": […], "expert_active_calls": […]}}``,
  one file a rank, one entry a layer;
- assignments: ``{"rank": 0, "token_counts": […]}``, one a rank.

Of serving benchmarks (vLLM, SGLang, genai-perf and AIPerf, one experiment each) samples of single
requests are read where the file has them (vLLM ``--save-detailed``, SGLang ``--output-details``,
the raw export of genai-perf), and the reported summary in any case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.parsers.array_types import F64
from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.text.json_fields import LARGEST_NUMBER, read_documents

Shape = Literal["gate_log", "statistics", "assignments"]

SHAPES: Final[tuple[Shape, ...]] = ("statistics", "gate_log", "assignments")
"""In order of detail, the most detailed first."""


class ExpertLoad(Struct, frozen=True):
    """Loads of one file. They are float64 by expert; whole numbers are tokens.

    ``steps`` is [steps, experts] of a gate log, ``layers`` the loads by layer name of
    statistics; ``total`` is their sum, or the counts of assignments. ``active_calls`` is in how
    many calls each expert got any token, by layer.
    """

    shape: Shape
    total: F64
    rank: int | None = None
    steps: F64 | None = None
    layers: Mapping[str, F64] = field(default_factory=dict)
    active_calls: Mapping[str, F64] = field(default_factory=dict)


def read_expert_load(path: Path, *, shown: str, rank: int | None = None) -> tuple[ExpertLoad, ...]:
    """Loads of a file; ``rank`` is that of its name, for shapes that do not state one.

    Raises TraceError for a file that is no JSON, of none of the shapes, or whose lists differ.
    """
    found: list[ExpertLoad] = []
    for document in read_documents(path, shown=shown):
        parts = document if isinstance(document, list) else [document]
        found += [_load(part, rank, shown) for part in parts]
    return tuple(found)


def _load(document: Any, rank: int | None, shown: str) -> ExpertLoad:
    if isinstance(document, dict) and "expert_loads" in document:
        return _gate_log(document["expert_loads"], rank, shown)
    if isinstance(document, dict) and "token_counts" in document:
        stated = document.get("rank")
        own = stated if isinstance(stated, int) and not isinstance(stated, bool) else rank
        return ExpertLoad("assignments", _loads(document["token_counts"], shown), own)
    layers = _layers(document, shown) if isinstance(document, dict) else {}
    if not layers:
        raise TraceError("no loads of experts in any known shape", path=shown)
    counts = {name: loads for name, (loads, _) in layers.items()}
    active = {name: calls for name, (_, calls) in layers.items() if calls is not None}
    if len({len(loads) for loads in counts.values()}) > 1:
        raise TraceError("layers have different numbers of experts", path=shown)
    total = np.sum(list(counts.values()), axis=0)
    return ExpertLoad("statistics", total, rank, layers=counts, active_calls=active)


def _gate_log(steps: Any, rank: int | None, shown: str) -> ExpertLoad:
    if not isinstance(steps, list) or not steps:
        raise TraceError("expert_loads is no list of steps", path=shown)
    rows = [_loads(step, shown) for step in steps]
    if len({len(row) for row in rows}) > 1:
        raise TraceError("steps have different numbers of experts", path=shown)
    table = np.stack(rows)
    return ExpertLoad("gate_log", table.sum(axis=0), rank, steps=table)


def _layers(document: Mapping[str, Any], shown: str) -> dict[str, tuple[F64, F64 | None]]:
    found: dict[str, tuple[F64, F64 | None]] = {}
    for name, part in document.items():
        if isinstance(part, dict) and "expert_counts" in part:
            calls = part.get("expert_active_calls")
            active = _loads(calls, shown) if isinstance(calls, list) and calls else None
            found[name] = (_loads(part["expert_counts"], shown), active)
    return found


def _loads(values: Any, shown: str) -> F64:
    """Loads of all experts. Raises TraceError for what is no list of numbers from 0 up."""
    if not isinstance(values, list) or not values:
        raise TraceError("loads of experts are no list of numbers", path=shown)
    numbers = [_finite_number(value) for value in values]
    if any(number is None or number < 0 for number in numbers):
        raise TraceError("a load of an expert is no number from 0 up", path=shown)
    return np.array(numbers, np.float64)


def _finite_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if abs(number) <= LARGEST_NUMBER else None


Summary = Mapping[str, float]
"""Statistic ("mean", "p50", "p90", "p95", "p99", "std", …) -> ms."""

QUANTITIES: Final = ("ttft", "tpot", "itl")
_NS_PER_MS: Final = 1e6
_MOST: Final = 1 << 63
_GENAI: Final = {"ttft": "time_to_first_token", "tpot": "inter_token_latency"}
"""genai-perf calls inter-token latency what others call TPOT: (e2e - TTFT) / (n - 1)."""
_GENAI_RATE: Final = "output_token_throughput"
_STATISTIC = re.compile(r"(mean|median|std|min|max|p\d+(?:\.\d+)?)_(ttft|tpot|itl)_ms")
_SAME: Final = {"avg": "mean", "median": "p50"}
_UNITS_TO_MS: Final = {"ms": 1.0, "s": 1000.0, "sec": 1000.0, "us": 1e-3, "ns": 1e-6}


class Experiment(Struct, frozen=True):
    """One run of a benchmark. Samples are ms, float64, None where the file has none.

    ``ttft_ms`` and ``tpot_ms`` have one value a request that succeeded (and, for TPOT, has more
    than one token), ``itl_ms`` one a gap between tokens. ``reported`` is the tool's own summary
    by quantity. ``line`` is the 1-based record in a file that has several. ``tokens_per_s`` are
    tokens of output of all requests.
    """

    tool: str
    line: int
    ttft_ms: F64 | None = None
    tpot_ms: F64 | None = None
    itl_ms: F64 | None = None
    reported: Mapping[str, Summary] = field(default_factory=dict)
    num_requests: int | None = None
    num_failed: int = 0
    tokens_per_s: float | None = None
    notes: tuple[Note, ...] = ()

    def samples(self, quantity: str) -> F64 | None:
        """Samples of one of QUANTITIES."""
        found: F64 | None = getattr(self, f"{quantity}_ms")
        return found


def read_serving(path: Path, *, shown: str) -> tuple[Experiment, ...]:
    """All experiments of a result file; () where it has no latency to the first token.

    Raises TraceError for a file that is no JSON.
    """
    documents = read_documents(path, shown=shown)
    found = [
        experiment
        for line, document in enumerate(documents, 1)
        for experiment in _experiments(document, line)
    ]
    return tuple(found)


def _experiments(document: Any, line: int) -> list[Experiment]:
    if not isinstance(document, dict):
        return []
    if isinstance(document.get("experiments"), list):
        return [_raw_export(one, line) for one in document["experiments"] if _has_requests(one)]
    if any(isinstance(document.get(name), dict) for name in _GENAI.values()):
        return [_genai_summary(document, line)]
    experiment = _bench(document, line)
    known = experiment.reported or experiment.ttft_ms is not None or experiment.num_failed
    return [experiment] if known else []


def _bench(document: Mapping[str, Any], line: int) -> Experiment:
    """From vLLM and SGLang: statistics by name in ms, samples in seconds."""
    tool = "sglang" if "sglang" in str(document.get("backend", "")).lower() else "vllm"
    reported: dict[str, dict[str, float]] = {}
    for key, value in document.items():
        match = _STATISTIC.fullmatch(key)
        number = _number(value)
        if match and number is not None:
            statistic = _SAME.get(match.group(1), match.group(1))
            reported.setdefault(match.group(2), {})[statistic] = number
    done, failed = _count(document.get("completed")), _count(document.get("failed")) or 0
    # Of no request there is no latency: the tools write zeros.
    experiment = Experiment(
        tool,
        line,
        reported={} if done == 0 else reported,
        num_requests=done,
        num_failed=failed,
        tokens_per_s=_number(document.get("output_throughput")) if done != 0 else None,
    )
    return _with_samples(experiment, document)


def _with_samples(experiment: Experiment, document: Mapping[str, Any]) -> Experiment:
    """Samples of the requests that succeeded; arrays of one request each must have one length."""
    ttfts = _list(document.get("ttfts"))
    arrays = {name: _list(document.get(name)) for name in ("itls", "output_lens", "errors")}
    if not ttfts:
        return experiment
    uneven = [name for name, values in arrays.items() if values and len(values) != len(ttfts)]
    if uneven:
        text = f"{', '.join(uneven)} and ttfts differ in length: the samples are not used"
        return replace(experiment, notes=(Note("uneven_arrays", text),))
    lengths = arrays["output_lens"] or [None] * len(ttfts)
    errors = arrays["errors"] or [""] * len(ttfts)
    done = [
        i
        for i, value in enumerate(ttfts)
        if (_number(value) or 0) > 0 and not errors[i] and lengths[i] != 0
    ]
    first = _numbers([ttfts[i] for i in done]) * 1000
    gaps = [_numbers(_list(arrays["itls"][i])) * 1000 for i in done] if arrays["itls"] else []
    counts = [_count(lengths[i]) or 0 for i in done]
    slow = [float(g.sum()) / (n - 1) for g, n in zip(gaps, counts, strict=False) if n > 1]
    return replace(
        experiment,
        ttft_ms=first if done else None,
        tpot_ms=np.array(slow) if slow else None,
        itl_ms=np.concatenate(gaps) if gaps else None,
        num_failed=len(ttfts) - len(done),
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _numbers(values: list[Any]) -> F64:
    found = [number for part in values if (number := _number(part)) is not None]
    return np.array(found, np.float64)


def _genai_summary(document: Mapping[str, Any], line: int) -> Experiment:
    """genai-perf and AIPerf: a mapping of statistics with a unit for every quantity."""
    reported: dict[str, dict[str, float]] = {}
    for quantity, name in _GENAI.items():
        part = document.get(name)
        if not isinstance(part, dict) or str(part.get("unit")) not in _UNITS_TO_MS:
            continue
        scale = _UNITS_TO_MS[str(part["unit"])]
        found = {str(_SAME.get(key, key)): _number(value) for key, value in part.items()}
        reported[quantity] = {key: n * scale for key, n in found.items() if n is not None}
    count, rate = (_average(document.get(name)) for name in ("request_count", _GENAI_RATE))
    return Experiment(
        "genai-perf",
        line,
        reported=reported,
        num_requests=_count(count),
        tokens_per_s=_number(rate),
    )


def _average(part: Any) -> Any:
    return part.get("avg") if isinstance(part, dict) else part


def _has_requests(experiment: Any) -> bool:
    return isinstance(experiment, dict) and isinstance(experiment.get("requests"), list)


def _raw_export(experiment: Mapping[str, Any], line: int) -> Experiment:
    """genai-perf's ``profile_export.json``: when requests left and responses came, in ns.

    A response may hold several tokens, so that gaps between responses give no TPOT.
    """
    ttft: list[float] = []
    gaps: list[F64] = []
    failed = 0
    for request in experiment["requests"]:
        begun, times = _times(request)
        if begun is None or not times:
            failed += 1
            continue
        ttft.append((times[0] - begun) / _NS_PER_MS)
        edges = np.array([time - times[0] for time in times], np.float64)
        gaps.append(edges[1:] / _NS_PER_MS - edges[:-1] / _NS_PER_MS)
    return Experiment(
        tool="genai-perf",
        line=line,
        ttft_ms=np.array(ttft) if ttft else None,
        itl_ms=np.concatenate(gaps) if gaps else None,
        num_requests=len(ttft),
        num_failed=failed,
    )


def _times(request: Any) -> tuple[int | None, list[int]]:
    """Return the send time and response times of a request; None and [] for a failed one."""
    if not isinstance(request, dict) or request.get("success") is False:
        return None, []
    came = [_count(part) for part in _list(request.get("response_timestamps"))]
    return _count(request.get("timestamp")), [time for time in came if time is not None]


def _number(value: Any) -> float | None:
    """A number below 2**63 in size, with which sums stay finite; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_MOST < value < _MOST else None  # NaN is not


def _count(value: Any) -> int | None:
    """A whole number that is not negative and below 2**63."""
    number = _number(value)
    if number is None or number < 0 or not number.is_integer():
        return None
    return int(value)  # exact, where it is an integer


def names_of(experiments: Sequence[Experiment], shown: str) -> tuple[str, ...]:
    """A name for each experiment of a file: the path, with the record where there are several."""
    if len(experiments) == 1:
        return (shown,)
    return tuple(f"{shown}:{number}" for number in range(1, len(experiments) + 1))
