"""Compare all methods on one file, in alternation: medians, spread and ratios."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from bench.inputs import Layout, TraceInput
from bench.measure import ROOT, Command, Run, RunError, Spread, alternate, run
from bench.peers import DOES_NOT_APPLY, Peer

OURS = "ccltui"
GENERAL = "ccltui, general decoder"
STORE = "ccltui, second opening"
JSON = "json.load + columns"
JSON_OFF = "json.load, no collector"
ORJSON = "orjson.loads + columns"
ORJSON_OFF = "orjson.loads, no collector"
SIMDJSON = "simdjson, fields on demand"
PEER = "traceinsight"


class Row(Struct, frozen=True):
    """One method on one file. Ratios to ccltui are computed per round.

    If ``problem`` is not empty, the method was not measured and the other fields are None.
    """

    method: str
    problem: str = ""
    rounds: int = 0
    cpu_s: Spread | None = None
    wall_s: Spread | None = None
    peak_mib: Spread | None = None
    cpu_ratio: Spread | None = None
    peak_ratio: Spread | None = None


class Comparison(Struct, frozen=True):
    """All methods on one file."""

    family: str
    layout: Layout
    size_bytes: int
    events: int
    timed: int
    rows: tuple[Row, ...]

    def row(self, method: str) -> Row | None:
        """Return the row of a method, None if it was not run."""
        return next((row for row in self.rows if row.method == method), None)


def compare(
    trace: TraceInput, peer: Peer, rounds: int, store: Path, *, log: Callable[[str], None]
) -> Comparison:
    """Measure every available method; the others are rows with a reason."""
    log(f"{trace.name}: {trace.size_bytes / 1e6:.0f} MB, {trace.counts.events:,} events")
    run(Command.child("fill", trace.path, store))  # also brings the file into the page cache
    runs, failures = alternate(commands(trace, peer, store), rounds, log=log)
    if OURS in failures:
        raise RunError(f"{trace.name}: {failures[OURS]}")
    problems = {**failures, **DOES_NOT_APPLY}
    if peer.python is None:
        problems[PEER] = peer.reason
    for method, done in runs.items():
        wrong = _wrong_count(done[0], trace)
        if wrong:
            problems[method] = wrong
    rows = [row_of(method, done, runs[OURS]) for method, done in runs.items()]
    return Comparison(
        family=trace.family,
        layout=trace.layout,
        size_bytes=trace.size_bytes,
        events=trace.counts.events,
        timed=trace.counts.timed,
        rows=(
            *(row for row in rows if row.method not in problems),
            *(Row(method, problem) for method, problem in problems.items()),
        ),
    )


def commands(trace: TraceInput, peer: Peer, store: Path) -> Mapping[str, Command]:
    """Return the command of each method."""
    path = trace.path
    chosen = {
        OURS: Command.child("columns", path),
        GENERAL: Command.child("columns", path, CCLTUI_ACCEL="0"),
        JSON: Command.child("json", path, "on"),
        JSON_OFF: Command.child("json", path, "off"),
        ORJSON: Command.child("orjson", path, "on"),
        ORJSON_OFF: Command.child("orjson", path, "off"),
        SIMDJSON: Command.child("simdjson", path),
        STORE: Command.child("store", path, store),
    }
    if peer.python is not None:
        script = ROOT / "bench" / "peer_traceinsight.py"
        arguments = (str(peer.python), str(script), str(path.parent))
        chosen[PEER] = Command(arguments, {})
    return chosen


def row_of(method: str, runs: Sequence[Run], ours: Sequence[Run]) -> Row:
    """Return medians and spread of one method, and its ratios to ccltui in the same rounds."""
    pairs = list(zip(runs, ours, strict=True))
    return Row(
        method=method,
        rounds=len(runs),
        cpu_s=Spread.of([done.cpu_s for done in runs]),
        wall_s=Spread.of([done.wall_s for done in runs]),
        peak_mib=Spread.of([done.peak_mib for done in runs]),
        cpu_ratio=Spread.of([done.cpu_s / base.cpu_s for done, base in pairs]),
        peak_ratio=Spread.of([done.peak_mib / base.peak_mib for done, base in pairs]),
    )


def _wrong_count(done: Run, trace: TraceInput) -> str:
    """Return a problem if the method missed events; traceinsight counts complete ones only."""
    wanted = {"events": trace.counts.events, "timed": trace.counts.timed}
    for key, number in wanted.items():
        if done.output.get(key, number) != number:
            return f"saw {done.output[key]:,} of {number:,} {key} events"
    return ""
