"""Write large traces, measure ccltui and other programs on them in one run, print the ratios.

python -m bench [--small] [--peers | --peer-python PATH] [--only PART …]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import get_args

import msgspec
from msgspec import Struct, structs

from bench import growth, peers, rank_growth
from bench.compare import Comparison, compare
from bench.first_frame import starts_s
from bench.inputs import LAYOUTS, Inputs, RankSet
from bench.keys import KeyRun, key_run
from bench.measure import Command, RunError, Spread, compile_modules, run
from bench.metrics import FromStore, from_store
from bench.nsys import first_metric
from bench.plot import svg
from bench.results import OpeningTimes, Results
from bench.tables import text_of
from ccltui.parsers.machine_limits import allowed_cpus

CULPRITS = "culprits"
"""The part that is run only on request: it measures answers, not speed."""
PARTS = (
    *("compare", "events", "ranks", "reopen", "metrics", "starts", "kernels"),
    *("screen", "keys", "nsys"),
)
_INTERVALS = 5_000_000
_SCREENS = ((120, 40), (200, 50))


class _Sizes(Struct, frozen=True):
    """Sizes of the inputs, and the number of rounds."""

    megabytes: int
    older_megabytes: int
    growth_megabytes: int
    events_a_rank: int
    events_a_small_rank: int
    rounds: int
    nsys_megabytes: int = 2000
    events_a_key_rank: int = 1_250_000
    events_a_key_many: int = 300_000
    step_ranks: tuple[int, ...] = (64, 256, 1024)
    collectives_a_rank: int = 5000


_FULL = _Sizes(500, 150, 250, 1_000_000, 20_000, 5)
_SMALL = _Sizes(20, 10, 10, 40_000, 2_000, 2, 20, 40_000, 2_000, (16, 64), 200)


def main() -> int:
    """Run the parts asked for; return 1 if a required method fails."""
    options = _parser().parse_args()
    small = _SMALL if options.small else _FULL
    sizes = structs.replace(
        small,
        **{
            name: value
            for name in _Sizes.__struct_fields__
            if (value := getattr(options, name, None)) is not None
        },
    )
    options.folder.mkdir(parents=True, exist_ok=True)
    compile_modules()
    if CULPRITS in (options.only or ()):
        _culprits(options)
        options.only = [part for part in options.only if part != CULPRITS]
        if not options.only:
            return 0
    try:
        results = _Bench(options, sizes).results()
    except RunError as error:
        sys.stderr.write(f"bench: {error}\n")
        return 1
    print(text_of(results), end="")
    (options.folder / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    (options.folder / "results.svg").write_text(svg(results), encoding="utf-8")
    _log(f"also in {options.folder}: results.json, results.svg")
    return 0


def _culprits(options: argparse.Namespace) -> None:
    """Score the answers on jobs with planted faults, and print the rates."""
    seeds = range(options.seed_base, options.seed_base + options.culprit_jobs)
    # Imported here: the process that measures others has to stay small.
    from bench.verdicts import rates  # noqa: PLC0415
    from bench.verdicts.run_many import score_many, write_jobs  # noqa: PLC0415

    jobs = score_many(seeds, options.jobs or allowed_cpus(), _log)
    print(rates.text_of(jobs), end="")
    place = options.folder / "culprits.jsonl"
    write_jobs(place, jobs)
    _log(f"also in {place}")


class _Bench:
    """The parts of a run."""

    def __init__(self, options: argparse.Namespace, sizes: _Sizes) -> None:
        self._parts = options.only or PARTS
        self._folder: Path = options.folder
        self._sizes = sizes
        self._inputs = Inputs(options.folder, log=_log)
        self._jobs = options.jobs or allowed_cpus()
        if options.peer_python is not None:
            self._peer = peers.given(options.peer_python)
        else:
            self._peer = peers.installed(options.folder / "peers", install=options.peers)

    def results(self) -> Results:
        """Measure all parts that were asked for."""
        sizes, rounds = self._sizes, self._sizes.rounds
        results = Results(machine={**run(Command.child("machine")).output, "workers": self._jobs})
        if "compare" in self._parts:
            results = structs.replace(results, comparisons=self._comparisons())
        if "events" in self._parts:
            points = growth.over_events(self._inputs, sizes.growth_megabytes, rounds, log=_log)
            results = structs.replace(results, events=points)
        if "ranks" in self._parts:
            found = self._inputs.ranks(64, sizes.events_a_small_rank)
            points = growth.over_ranks(found, self._jobs, rounds, log=_log)
            results = structs.replace(results, ranks=points, steps=self._steps())
        if "metrics" in self._parts:
            results = structs.replace(results, metrics=self._from_store())
        if "starts" in self._parts:
            found = self._inputs.ranks(8, sizes.events_a_small_rank)
            with self._store() as store:
                growth.fill(found, Path(store), self._jobs)
                starts = starts_s(found.directory, Path(store), rounds, log=_log)
            results = structs.replace(results, starts=starts)
        if "kernels" in self._parts:
            output = run(Command.child("kernels", _INTERVALS, rounds)).output
            spreads = {name: Spread(**spread) for name, spread in output.items()}
            results = structs.replace(results, kernels=spreads)
        if "screen" in self._parts:
            small = self._explorer_openings(self._inputs.ranks(8, sizes.events_a_small_rank))
            large = self._explorer_openings(self._inputs.ranks(8, sizes.events_a_rank))
            results = structs.replace(results, screens={**small, **large})
        if "nsys" in self._parts:
            found_nsys = first_metric(self._folder, sizes.nsys_megabytes, rounds, log=_log)
            results = structs.replace(results, nsys=found_nsys)
        if "keys" in self._parts:
            output = run(Command.child("heat", 1024, 5000, *_SCREENS[0])).output
            heat = Spread.of(output["frames_ms"])
            results = structs.replace(results, sessions=self._sessions(), heat=heat)
        if "reopen" in self._parts:
            found = self._inputs.ranks(8, sizes.events_a_rank)
            with self._store() as store:
                growth.fill(found, Path(store), self._jobs)
                openings = growth.second_openings(found, Path(store), rounds)
            results = structs.replace(results, openings=openings)
        return results

    def _steps(self) -> dict[str, list[rank_growth.StepCost]]:
        """Measure the steps of all metrics over ranks, by the shape of the job."""
        found = {}
        for shape in get_args(rank_growth.Shape):
            costs = {}
            for ranks in self._sizes.step_ranks:
                _log(f"  steps: {ranks} ranks, {shape}")
                arguments = (ranks, self._sizes.collectives_a_rank, shape)
                costs[ranks] = run(Command.child("steps", *arguments)).output
            found[shape] = rank_growth.by_step(costs)
        return found

    def _from_store(self) -> tuple[FromStore, ...]:
        """Measure all metrics, and some alone, on eight ranks of two sizes."""
        stored = []
        for events in (self._sizes.events_a_small_rank, self._sizes.events_a_rank):
            found = self._inputs.ranks(8, events)
            with self._store() as store:
                growth.fill(found, Path(store), self._jobs)
                stored.append(from_store(found, Path(store), self._sizes.rounds, log=_log))
        return tuple(stored)

    def _store(self) -> tempfile.TemporaryDirectory[str]:
        """Create a cache; errors on removal are ignored, since workers may still write to it."""
        return tempfile.TemporaryDirectory(
            prefix="store-", dir=self._folder, ignore_cleanup_errors=True
        )

    def _comparisons(self) -> tuple[Comparison, ...]:
        sizes = self._sizes
        with self._store() as store:
            return tuple(
                compare(
                    self._inputs.trace(
                        family,
                        layout,
                        sizes.megabytes if layout == "native" else sizes.older_megabytes,
                    ),
                    self._peer,
                    sizes.rounds,
                    Path(store),
                    log=_log,
                )
                for family in self._inputs.families()
                for layout in LAYOUTS
            )

    def _sessions(self) -> dict[str, KeyRun]:
        """Measure keys in the explorer with 8 large ranks and with 64, in two terminal sizes."""
        sizes, runs = self._sizes, {}
        large = self._inputs.ranks(8, sizes.events_a_key_rank)
        many = self._inputs.ranks(64, sizes.events_a_key_many)
        for found in (large, many):
            with self._store() as store:
                for width, height in _SCREENS:
                    name = f"{found.directory.name}, {width}×{height}"
                    _log(f"  keys: {name}")
                    arguments = (found.directory, store, found.ranks, found.counts.events)
                    runs[name] = key_run(
                        run(Command.child("keys", *arguments, f"{width}x{height}")).output
                    )
        return runs

    def _explorer_openings(self, found: RankSet) -> dict[str, OpeningTimes]:
        """Measure first and second openings of the explorer; return the median run of each."""
        first, second = [], []
        for _ in range(self._sizes.rounds):
            with self._store() as store:
                command = Command.child("screen", found.directory, store, found.ranks)
                first.append(OpeningTimes(**run(command).output))
                second.append(OpeningTimes(**run(command).output))
            _log(f"  explorer: {first[-1].metric_s:.2f} s, {second[-1].metric_s:.2f} s")
        size = f"{found.size_bytes / 1e6:.0f} MB"
        return {
            f"first opening, {size}": _median_run(first),
            f"second opening, {size}": _median_run(second),
        }


def _median_run(sights: list[OpeningTimes]) -> OpeningTimes:
    """Return the run with the median time to the first metric."""
    wanted = statistics.median_low(sight.metric_s for sight in sights)
    return next(sight for sight in sights if sight.metric_s == wanted)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    folder = Path(tempfile.gettempdir()) / "ccltui-bench"
    add("--folder", type=Path, default=folder, help="inputs and results; default: %(default)s")
    add("--small", action="store_true", help="a few minutes: small inputs, two rounds")
    add("--only", nargs="+", choices=(*PARTS, CULPRITS), help="parts to run; default: all")
    add("--culprit-jobs", type=int, default=1000, help="jobs of culprits, which runs alone")
    add("--seed-base", type=int, default=0, help="seed of the first job of culprits")
    add("--rounds", type=int, help="runs of each method; default: 5")
    add("--megabytes", type=int, help="size of the native layout; default: 500")
    add("--older-megabytes", type=int, help="size of the other layouts; default: 150")
    add("--growth-megabytes", type=int, help="first size of the growth series; default: 250")
    add("--events-a-rank", type=int, help="of the eight ranks; default: 1000000")
    add("--events-a-small-rank", type=int, help="of the sixty-four ranks; default: 20000")
    add("--nsys-megabytes", type=int, help="size of the nsys export; default: 2000")
    add("--events-a-key-rank", type=int, help="of eight, under keys; default: 1250000")
    add("--events-a-key-many", type=int, help="of sixty-four, under keys; default: 300000")
    add("--jobs", type=int, help="worker processes for many ranks; default: the CPUs allowed")
    add("--peers", action="store_true", help="install the peers that are absent")
    add("--peer-python", type=Path, help="an interpreter that has traceinsight already")
    return parser


def _log(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
