"""Score the first finding of the metric ``findings`` on jobs with one planted fault.

``python -m bench.verdicts.first_finding --first 0 --jobs 20`` draws jobs as ``ccltui demo --fault
any --condition clean --level full --seed N`` does, reads them back, and compares the finding that
stands first with what was planted: class, rank, share of the time, and what mending it saves.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from bench.verdicts.answers import MEMORY, OF_HOSTS, Answer, read_finding
from bench.verdicts.marks import BORDER, marked
from ccltui.demo.planted import JobSpec, PlantedTruth, random_spec, write_planted
from ccltui.demo.planted.job_spec import Level
from ccltui.demo.planted.planted_job import MATERIAL, FaultTruth
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

MOST_APART: Final = 0.03
"""Most that a stated share may differ from the planted one."""
BEHIND: Final = 2.0
"""What hosts cost over the time for which devices idle for them: the rest is spent in transfers
behind those that idle, which is another part of the same time. A finding that states less is
wrong."""
TOLERANCE: Final = 0.1
"""Relative error of the stated saving that counts as right, and slack of stated bounds."""
FIRST_STEP: Final = 10
"""Number of the first step of a planted job."""
_LISTED: Final = 8
"""Most ranks that a sentence lists."""


class First(Struct, frozen=True):
    """The first finding of one job against what was planted.

    Attributes:
        seed: Seed of the job.
        planted: Fault, culprits and cost, in words.
        counts: Whether the fault costs enough to be told, within the recording, and more than
            hosts and chance cost without it.
        text: The sentence that stands first.
        kind: Whether its class is the planted one, or one that describes it as well.
        who: Whether it names the planted ranks, stage or host and no others, in its text too.
        apart: Stated share less that which was planted, of «up to» what is missing; None where
            nothing is blamed.
        saves: Whether the stated saving or its bounds hold; None where none is stated.
    """

    seed: int
    planted: str
    counts: bool
    text: str
    kind: bool
    who: bool
    apart: float | None
    saves: bool | None

    @property
    def is_right(self) -> bool:
        """Return whether class, rank, share and saving are right."""
        share = self.apart is not None and abs(self.apart) <= MOST_APART
        return self.kind and self.who and share and self.saves is not False


def first_finding(seed: int, level: Level | None = "full") -> First:
    """Draw the job of a seed with one fault, and score what stands first."""
    spec = random_spec(seed, condition="clean", level=level)
    place = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="planted-", dir=place) as folder:
        directory = Path(folder) / "job"
        truth = write_planted(directory, spec).truth
        view = View(open_job(directory, cache_dir=Path(folder) / "cache", jobs=1))
        return scored(spec, truth, find("findings").run(view))


def scored(spec: JobSpec, truth: PlantedTruth, result: Result) -> First:
    """Compare what stands first with the planted fault that costs most."""
    found = result.details["findings"][0]
    fault = next(one for one in truth.faults if one.cause != "decoy")
    named = read_finding(found, result.details, truth)
    mark = marked(spec, truth, "findings", Answer(result.status, **named)) if named else None
    is_same = mark is not None and mark.class_mark == "right"
    return First(
        spec.seed,
        f"{fault.cause} of rank {listed(fault.ranks)}: {fault.cost_ms:.3f} of "
        f"{truth.step_ms:.3f} ms",
        _is_largest(fault, truth) and not _comes_last(spec, fault),
        found["text"],
        is_same,
        mark is not None and mark.mark == "right" and _stands_in(found["where"], found["text"]),
        _apart(found, fault, truth) if is_same else None,
        _saves(found, fault, truth, result.details["period_ms"]) if is_same else None,
    )


def _costs_ms(kind: str, fault: FaultTruth, truth: PlantedTruth) -> tuple[float, float]:
    """Least and most that a fault costs as its finding counts it, per step.

    Stages share their work out. Idle devices of all ranks include what hosts always cost, and what
    ranks wait for each other includes what passes vary by chance; it is a mean over all ranks, of
    which those that are late do not wait.
    """
    shared = fault.shared_ms if kind == "heavy_stage" and fault.shared_ms is not None else None
    least = fault.cost_ms if shared is None else shared
    most = least + (truth.host_ms if fault.verdict == "host" else 0.0)
    if kind == "waiting_for_rank":
        waiting = 1 - len(fault.ranks) / len(truth.ranks)
        return least * waiting, most + truth.jitter_ms
    return least, most


def _apart(found: Mapping[str, Any], fault: FaultTruth, truth: PlantedTruth) -> float:
    """Return by how much the stated share is above or below the planted one."""
    least, most = (one / truth.step_ms for one in _costs_ms(found["class"], fault, truth))
    if found["class"] in OF_HOSTS and not fault.ranks:
        least /= BEHIND
    share = float(found["share"] or 0.0)
    if "up to" in found["text"]:
        return min(share - least, 0.0)
    return share - min(max(share, least), most)


def _saves(
    found: Mapping[str, Any], fault: FaultTruth, truth: PlantedTruth, period_ms: float
) -> bool | None:
    """Return whether the saving, as a share of the period, is the planted one."""
    bounds, saves = found["saves_bounds_ms"], found["saves_ms"]
    if bounds is None and saves is None:
        return None
    low, high = bounds or (saves, saves)
    kind = "slow_worker" if found["class"] == "waiting_for_rank" else found["class"]
    least, most = (one / truth.step_ms for one in _costs_ms(kind, fault, truth))
    return bool(
        low / period_ms <= (1 + TOLERANCE) * most + MATERIAL
        and high / period_ms >= (1 - TOLERANCE) * least - MATERIAL
    )


def _is_largest(fault: FaultTruth, truth: PlantedTruth) -> bool:
    """Return whether a fault is what costs most, and enough to be told.

    Hosts that launch too slowly, and what varies by chance, may cost more without any fault.
    """
    usual = max(truth.host_ms, truth.jitter_ms)
    return fault.cost_ms >= max(BORDER * MATERIAL * truth.step_ms, usual)


def _comes_last(spec: JobSpec, fault: FaultTruth) -> bool:
    """Return whether a checkpoint follows the last step, after which no device is active."""
    return fault.cause == "checkpoint" and fault.steps == (FIRST_STEP + spec.steps - 1,)


def _stands_in(where: Mapping[str, Any], text: str) -> bool:
    """Whether the ranks of a finding, or the stage or host that they are, stand in its text."""
    if not where["ranks"]:
        return True
    whole = where["host"] is not None and str(where["host"]) in text
    stage = where["stage"] is not None and f"tage {where['stage']} " in text
    return whole or stage or set(where["ranks"][:_LISTED]) <= _ranks_in(text)


def _ranks_in(text: str) -> set[str]:
    """Return all ranks that a text lists, those of ranges too."""
    words = re.sub(r"\d+\.\d+", " ", text)
    ranges = [range(int(a), int(b) + 1) for a, b in re.findall(r"(\d+)-(\d+)", words)]
    return {str(one) for listed in ranges for one in listed} | set(re.findall(r"\w+", words))


def listed(ranks: Sequence[int]) -> str:
    """Return ranks as text; all, where no single ones are named."""
    return ", ".join(map(str, ranks)) or "all"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print every job whose first finding is not right, and the rates."""
    parser = argparse.ArgumentParser(prog="bench.verdicts.first_finding", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="seed of the first job")
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--level", default="full", help="what the files record; any: drawn")
    options = parser.parse_args(arguments)
    seeds = range(options.first, options.first + options.jobs)
    level = None if options.level == "any" else options.level
    drawn = [first_finding(seed, level) for seed in seeds]
    found = [one for one in drawn if one.counts]
    for one in found:
        if not one.is_right:
            apart = "" if one.apart is None else f" (share {one.apart:+.1%}, saves {one.saves})"
            sys.stderr.write(f"seed {one.seed}: {one.planted}\n  {one.text}{apart}\n")
    blaming = [one for one in found if one.apart is not None]
    stated = [one for one in blaming if one.saves is not None]
    print(
        f"{len(drawn)} jobs, {len(found)} with a fault that costs {BORDER * MATERIAL:.0%} of the "
        "step or more, and more than all else: "
        f"{sum(one.is_right for one in found)} first findings are right; class right "
        f"{sum(one.kind for one in found)}, who right {sum(one.who for one in found)}; of "
        f"{len(blaming)} of the right class, share within {MOST_APART:.0%} in "
        f"{sum(abs(one.apart or 0.0) <= MOST_APART for one in blaming)}, saving right in "
        f"{sum(one.saves is True for one in stated)} of {len(stated)} that state one"
    )
    return 0 if all(one.is_right for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
