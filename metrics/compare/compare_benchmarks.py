"""Compare two cluster benchmarks value by value."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ccltui.metrics.cluster.outliers import name_of
from ccltui.metrics.cluster.plausibility import hosts_of, label_of
from ccltui.metrics.compare.comparable import Check, Comparability
from ccltui.metrics.compare.compare_runs import Comparison, Row, judged
from ccltui.metrics.compare.spread import Sample, half_width

if TYPE_CHECKING:
    from ccltui.parsers.cluster.benchmark_yaml import ClusterBenchmark, Measurement

_LOWER_IS_BETTER: Final = frozenset({"network_latency"})
_Key = tuple[str, str, str]


def compare_benchmarks(
    a: ClusterBenchmark, b: ClusterBenchmark, *, runs_vary_pct: float | None = None
) -> Comparison:
    """Compare every value that one of two benchmarks has.

    Devices of one host are matched by their number. The samples of a value are of one benchmark:
    without ``runs_vary_pct``, by how many percent two benchmarks of one machine differ, no
    difference is called better or worse.
    """
    found = Comparability(tuple(_checks(a, b)))
    of_a, of_b = _by_key(a), _by_key(b)
    either = {**of_b, **of_a}
    rows = [
        _row(either[key], (of_a.get(key), of_b.get(key)), found, runs_vary_pct)
        for key in {**of_a, **of_b}
    ]
    return Comparison(
        (a.path,), (b.path,), found, tuple(rows), ranked=False, runs_vary_pct=runs_vary_pct
    )


def _by_key(benchmark: ClusterBenchmark) -> dict[_Key, Measurement]:
    return {
        (one.id or f"{one.category}, {one.test}", name_of(one), one.unit): one
        for one in benchmark.measurements
    }


def _checks(a: ClusterBenchmark, b: ClusterBenchmark) -> list[Check]:
    pairs = {
        "gpu": (a.gpu_name, b.gpu_name),
        "device": (a.device, b.device),
        "backend": (a.backend, b.backend),
        "ranks": (_text(a.world_size or _ranks(a)), _text(b.world_size or _ranks(b))),
        "hosts": (_text(hosts_of(a)), _text(hosts_of(b))),
    }
    checks = [Check(name, of_a, of_b, required=True) for name, (of_a, of_b) in pairs.items()]
    versions = [
        ", ".join(f"{name} {text}" for name, text in sorted(one.versions.items())) for one in (a, b)
    ]
    return [*checks, Check("versions", versions[0], versions[1], required=False)]


def _ranks(benchmark: ClusterBenchmark) -> int | None:
    return max((one.ranks or 0 for one in benchmark.measurements), default=0) or None


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _row(
    either: Measurement,
    sides: tuple[Measurement | None, Measurement | None],
    found: Comparability,
    runs_vary_pct: float | None,
) -> Row:
    a, b = sides
    samples = [Sample(one.samples, "samples") for one in (a, b) if one is not None and one.samples]
    half = half_width(*samples) if len(samples) == 2 else None
    row = Row(
        name=label_of(either),
        unit=either.unit,
        a=None if a is None else a.value,
        b=None if b is None else b.value,
        verdict="",
        note="",
        higher_is_better=either.id not in _LOWER_IS_BETTER,
        half_width=half,
        spread=""
        if half is None
        else " against ".join(f"{len(s.values)} samples" for s in samples),
    )
    if row.delta is None or row.a is None:
        missing = "A" if row.a is None else "B"
        return replace(row, verdict="not comparable", note=f"{missing} does not state it")
    if found.why_not:
        return replace(row, verdict="not comparable", note=found.why_not)
    verdict, note = judged(row, runs_vary_pct, is_one_run=True)
    return replace(row, verdict=verdict, note=note)
