"""Measure matching, clock alignment and straggler ranking of many ranks.

Run it with ``python -m bench.collectives``. Calls are generated in memory: a group of all ranks,
one of eight neighbours, and one of every eighth rank; windows that start late, clocks up to a
second apart that drift by up to 50 ppm, and one late rank. ``numbered`` calls have sequence
numbers; the others are matched by size and time, and some of them are missing.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from bench.measure import Command, compile_modules, run
from ccltui.metrics.collectives.arrivals import arrivals
from ccltui.metrics.collectives.clocks.clock_estimate import match_and_clock
from ccltui.metrics.collectives.lag_tables import choose, tally
from ccltui.metrics.collectives.matching.match import MatchInput
from ccltui.metrics.model.calls import CallRows, Calls
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.communicator_groups import CommGroup
from ccltui.parsers.array_types import I64

NEIGHBOURS = 8
LATE_RANK = 3
MANY_TIMES_MEAN = 1.5  # waiting caused, of which a rank is a straggler, as in straggler_lag
EPOCH_NS = 1_707_000_000_000_000_000
KINDS = ("AllReduce", "AllGather", "ReduceScatter")
SIZES = ((64, 20_000), (1024, 5_000))


class Ranked(Struct, frozen=True):
    """Cost and result of one job: CPU and wall seconds, peak MiB of the process, stragglers."""

    cpu_s: float
    wall_s: float
    peak_mib: float
    instances: int
    stragglers: tuple[int, ...]


def draw(
    ranks: int, count: int, *, numbered: bool, dropped: float = 0.0, seed: int = 0
) -> tuple[list[MatchInput], list[CommGroup]]:
    """Generate ``count`` collectives on each of ``ranks`` (a multiple of eight).

    Args:
        ranks: Number of ranks.
        count: Calls per rank.
        numbered: Whether calls have sequence numbers.
        dropped: Share of calls that are missing, at random.
        seed: Seed of the generator.
    """
    rng = np.random.default_rng(seed)
    near = [tuple(range(i, i + NEIGHBOURS)) for i in range(0, ranks, NEIGHBOURS)]
    far = [tuple(range(i, ranks, NEIGHBOURS)) for i in range(NEIGHBOURS)]
    members = [tuple(range(ranks)), *near, *far]
    groups = [CommGroup(m, str(i), "", label=str(i), size=len(m)) for i, m in enumerate(members)]
    what = rng.choice(3, count, p=(0.1, 0.6, 0.3))
    common = {
        "kind": rng.choice([TYPES.index(name) for name in KINDS], count).astype(np.int8),
        "elems": rng.choice([1024, 65_536, 1 << 20], count),
        "seq": _ordinals(what),
        "step": np.arange(count) // max(count // 20, 1),
    }
    begin = np.cumsum(rng.integers(200_000, 600_000, count))
    inputs = []
    for rank in range(ranks):
        mine = np.array([0, 1 + rank // NEIGHBOURS, 1 + len(near) + rank % NEIGHBOURS])[what]
        calls = _calls(rng, rank, begin, mine, common, numbered=numbered)
        keep = rng.random(count) >= dropped
        keep[: int(rng.integers(0, 6))] = False
        inputs.append(MatchInput(str(rank), rank, "", calls.take(keep)))
    return inputs, groups


def _ordinals(what: I64) -> I64:
    found = np.zeros(len(what), np.int64)
    for one in range(3):
        here = what == one
        found[here] = np.arange(int(here.sum()))
    return found


def _calls(
    rng: np.random.Generator,
    rank: int,
    begin: I64,
    group: I64,
    common: dict[str, npt.NDArray[np.int64] | npt.NDArray[np.int8]],
    *,
    numbered: bool,
) -> Calls:
    count = len(begin)
    offset = int(rng.integers(-(10**9), 10**9)) if rank else 0
    drift = float(rng.uniform(-50e-6, 50e-6)) if rank else 0.0
    start = begin + rng.integers(0, 150_000, count) + (30_000 if rank == LATE_RANK else 0)
    end = begin + 300_000 + rng.integers(0, 20_000, count)

    def clock(times: I64) -> I64:
        return np.asarray(EPOCH_NS + offset + np.rint(times * (1 + drift)).astype(np.int64))

    none = np.full(count, -1, np.int64)
    return Calls(
        source="kernel",
        start_ns=clock(start),
        dur_ns=clock(end) - clock(start),
        kind=np.asarray(common["kind"], np.int8),
        group=group.astype(np.int32),
        message_bytes=none,
        wire_bytes=none,
        in_elems=np.asarray(common["elems"], np.int64),
        out_elems=np.asarray(common["elems"], np.int64),
        dtype=np.ones(count, np.int32),
        seq=np.asarray(common["seq"], np.int64) if numbered else none,
        comms_id=np.zeros(count, np.uint64),
        step=np.asarray(common["step"], np.int64),
        src=none,
        dst=none,
        rows=CallRows("gpu", np.arange(count)),
        has_metadata=np.ones(count, np.bool_),
        library=np.zeros(count, np.int8),
    )


def ranked(inputs: list[MatchInput], groups: list[CommGroup]) -> Ranked:
    """Match calls, align clocks and rank stragglers."""
    cpu, wall = time.process_time(), time.perf_counter()
    matches, clocks = match_and_clock(inputs, groups)
    found = arrivals(matches, inputs, clocks)
    index = {item.label: number for number, item in enumerate(inputs)}
    chosen = []
    for group in found.groups:
        members = np.array([index[label] for label in group.labels])
        every = np.arange(len(members))
        chosen.append(choose(group, group.eligible, every, members, found.floor_ns))
    caused = tally(chosen, len(inputs)).caused_wait_ns
    much = np.flatnonzero(caused > MANY_TIMES_MEAN * caused.mean())
    stragglers = much[np.argsort(-caused[much])].tolist()
    return Ranked(
        cpu_s=time.process_time() - cpu,
        wall_s=time.perf_counter() - wall,
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        instances=sum(len(one) for one in chosen),
        stragglers=tuple(stragglers),
    )


def main() -> int:
    """Print one line per job."""
    parser = argparse.ArgumentParser(prog="bench.collectives", description=__doc__)
    parser.parse_args()
    compile_modules()
    for ranks, count in SIZES:
        for numbered in (True, False):
            output = run(Command.child("collectives", ranks, count, int(numbered))).output
            how = "by number" if numbered else "by size and time, 0.2 % missing"
            sys.stdout.write(
                f"{ranks} x {count:,}, {how}: {output['cpu_s']:.2f} s of CPU, "
                f"{output['wall_s']:.2f} s, "
                f"{output['peak_mib']:.0f} MiB; stragglers {output['stragglers']}\n"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
