"""Measure how the cost of ccltui grows with events and ranks, and second openings."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from bench.inputs import Inputs, RankSet
from bench.measure import Command, Run, RunError, Spread, run

TIMES = (1, 2, 4, 8)
RANKS = (1, 2, 4, 8, 16, 32, 64)
BOUND_MIB = 80.0
BOUND_BYTES_AN_EVENT = 50.0


class Point(Struct, frozen=True):
    """One size (``size`` events or ranks). ``bound_mib`` limits the peak memory; 0: no limit."""

    size: int
    events: int
    size_bytes: int
    cpu_s: Spread
    wall_s: Spread
    peak_mib: Spread
    bound_mib: float = 0.0


class Opening(Struct, frozen=True):
    """Cost of opening all ranks of a directory from the store, in a process of its own."""

    how: str
    cpu_s: Spread
    wall_s: Spread
    peak_mib: Spread


def bound_mib(events: int) -> float:
    """Return the limit of peak memory for reading a file of that many events."""
    return BOUND_MIB + BOUND_BYTES_AN_EVENT * events / (1 << 20)


def over_events(
    inputs: Inputs, megabytes: int, rounds: int, *, log: Callable[[str], None]
) -> tuple[Point, ...]:
    """Measure one rank of ``megabytes`` and its multiples, in alternation."""
    traces = [inputs.trace("generated", "native", megabytes * times) for times in TIMES]
    runs: list[list[Run]] = [[] for _ in traces]
    for _ in range(rounds):
        for trace, done in zip(traces, runs, strict=True):
            done.append(run(Command.child("columns", trace.path)))
            log(f"  {trace.counts.events:,} events: {done[-1].cpu_s:.2f} CPU-s")
            _expect(done[-1], "events", trace.counts.events)
    return tuple(
        _point(
            trace.counts.events,
            trace.counts.events,
            trace.size_bytes,
            done,
            bound=bound_mib(trace.counts.events),
        )
        for trace, done in zip(traces, runs, strict=True)
    )


def over_ranks(
    found: RankSet, jobs: int, rounds: int, *, log: Callable[[str], None]
) -> tuple[Point, ...]:
    """Measure loading the first ranks of a directory into an empty store."""
    counts = [count for count in RANKS if count <= found.ranks]
    runs: list[list[Run]] = [[] for _ in counts]
    for _ in range(rounds):
        for count, done in zip(counts, runs, strict=True):
            with tempfile.TemporaryDirectory(prefix="ccltui-bench-") as cache:
                done.append(run(Command.child("ranks", found.directory, cache, count, jobs)))
            log(f"  {count} ranks: {done[-1].cpu_s:.2f} CPU-s")
            _expect(done[-1], "ranks", count)
    return tuple(
        _point(count, int(done[0].output["events"]), 0, done)
        for count, done in zip(counts, runs, strict=True)
    )


def fill(found: RankSet, cache: Path, jobs: int) -> None:
    """Write all ranks of a directory to the store in ``cache``."""
    done = run(Command.child("ranks", found.directory, cache, found.ranks, jobs))
    _expect(done, "ranks", found.ranks)


def second_openings(found: RankSet, cache: Path, rounds: int) -> tuple[Opening, ...]:
    """Measure opening from a filled store: mapped only, and with every column read once."""
    openings = []
    for how in ("mapped", "columns"):
        runs = [run(Command.child("job", found.directory, cache, how)) for _ in range(rounds)]
        _expect(runs[0], "events", found.counts.events)
        openings.append(Opening(how, *_spreads(runs)))
    return tuple(openings)


def _expect(done: Run, key: str, number: int) -> None:
    if done.output[key] != number:
        raise RunError(f"saw {done.output[key]} {key}, not {number}")


def _point(
    size: int, events: int, size_bytes: int, runs: Sequence[Run], *, bound: float = 0.0
) -> Point:
    return Point(size, events, size_bytes, *_spreads(runs), bound)


def _spreads(runs: Sequence[Run]) -> tuple[Spread, Spread, Spread]:
    return (
        Spread.of([done.cpu_s for done in runs]),
        Spread.of([done.wall_s for done in runs]),
        Spread.of([done.peak_mib for done in runs]),
    )
