"""Score the first finding of the Overview on jobs with one planted fault.

``python -m bench.verdicts.first_finding --first 0 --jobs 20`` draws jobs as ``ccltui demo --fault
any --condition clean --level full --seed N`` does, reads them back, and compares the sentence that
stands first with what was planted: rank, cause, and time that a step loses by it.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.verdicts.answers import MEMORY, Answer, read_answer
from bench.verdicts.marks import BORDER, marked
from ccltui.demo.planted import JobSpec, PlantedTruth, random_spec, write_planted
from ccltui.demo.planted.job_spec import Level
from ccltui.demo.planted.planted_truth import MATERIAL, FaultTruth
from ccltui.metrics.collectives.causes.host_work import HOST_BLOCKED
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job
from ccltui.report import overview_text

TOLERANCE: Final = 0.1
"""Relative error of the stated cost that counts as right."""
FIRST_STEP: Final = 10
"""Number of the first step of a planted job."""
BLOCKED_NS: Final = 200_000
"""Time of one operation from which on a host counts as blocked, see docs/definitions.md."""
_LISTED: Final = 8
"""Most ranks that a sentence lists."""
METRICS: Final = ("verdict", "fix_first", "what_if_no_straggler", "step_variability")


@dataclass(frozen=True, slots=True)
class First:
    """The first finding of one job against what was planted.

    Attributes:
        seed: Seed of the job.
        planted: Fault, culprits and cost, in words.
        counts: Whether the fault costs enough to be told, within the recording.
        text: The sentences that stand first.
        answers: Whether they name a cause, or that nothing costs enough.
        who: Whether they name the planted ranks, or nobody where nobody is late.
        cause: Whether they name the planted cause, as far as the host shows it.
        error: Relative error of the stated cost; None where none is stated or nobody is at fault.
    """

    seed: int
    planted: str
    counts: bool
    text: str
    answers: bool
    who: bool
    cause: bool
    error: float | None

    @property
    def is_right(self) -> bool:
        """Return whether rank, cause and cost are right."""
        cost = self.error is None or abs(self.error) <= TOLERANCE
        return self.answers and self.who and self.cause and cost


def first_finding(seed: int, level: Level | None = "full") -> First:
    """Draw the job of a seed with one fault, and score what stands first on its Overview."""
    spec = random_spec(seed, condition="clean", level=level)
    place = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="planted-", dir=place) as folder:
        directory = Path(folder) / "job"
        truth = write_planted(directory, spec).truth
        view = View(open_job(directory, cache_dir=Path(folder) / "cache", jobs=1))
        results = {name: find(name).run(view) for name in METRICS}
    return scored(spec, truth, results)


def scored(spec: JobSpec, truth: PlantedTruth, results: Mapping[str, Result]) -> First:
    """Compare what stands first with the planted fault that costs most."""
    answer = read_answer("verdict", results["verdict"], truth)
    mark = marked(spec, truth, "verdict", answer)
    text = overview_text.headline(results)
    fault = next(one for one in truth.faults if one.cause != "decoy")
    answers = answer.verdict not in ("", "inconclusive")
    blames = answers and answer.verdict != "no_straggler"
    culprit = results["verdict"].details.get("culprit") if blames else None
    cost = f"{fault.cost_ms:.3f} of {truth.step_ms:.3f} ms"
    return First(
        spec.seed,
        f"{fault.cause} of rank {listed(fault.ranks)}: {cost}",
        fault.cost_ms >= BORDER * MATERIAL * truth.step_ms and not _comes_last(spec, fault),
        text,
        answers,
        mark.mark in ("right", "quiet") and (culprit is None or _stands_in(culprit, text)),
        mark.cause_right is not False or _is_blocked(spec, fault, answer),
        _error(answer, fault, truth, text, spec.level) if blames else None,
    )


def _error(
    answer: Answer, fault: FaultTruth, truth: PlantedTruth, text: str, level: Level
) -> float | None:
    """Relative error of the cost that stands in the text; NaN where the text lacks it."""
    cost_ms = _cost_ms(answer, fault, truth)
    if answer.saved_ms is None or cost_ms is None or cost_ms < BORDER * MATERIAL * truth.step_ms:
        return None
    if f"{answer.saved_ms:.4g} ms" not in text:
        return float("nan")
    # Without step markers there is one window: shares of the time are compared.
    whole = level == "no_host" and answer.step_ms
    scale = truth.step_ms / answer.step_ms if whole and answer.step_ms else 1.0
    return answer.saved_ms * scale / cost_ms - 1


def _cost_ms(answer: Answer, fault: FaultTruth, truth: PlantedTruth) -> float | None:
    """Cost of what is named; None where the recording does not tell it from another class."""
    if answer.verdict == "host" and not answer.ranks:
        # Hosts that hold up all ranks are set back altogether, with what they always cost.
        return truth.host_ms + (fault.cost_ms if fault.verdict == "host" else 0.0)
    if answer.verdict == fault.verdict and fault.verdict != "random":
        return fault.cost_ms
    return fault.shared_ms if answer.verdict == "heavy_stage" else None


def _comes_last(spec: JobSpec, fault: FaultTruth) -> bool:
    """Return whether a checkpoint follows the last step, after which no device is active."""
    return fault.cause == "checkpoint" and fault.steps == (FIRST_STEP + spec.steps - 1,)


def _is_blocked(spec: JobSpec, fault: FaultTruth, answer: Answer) -> bool:
    """Return whether slow launches last as long as a blocked host, by the threshold for it."""
    slow = fault.cause == "launch_bound" and answer.cause == HOST_BLOCKED
    return slow and spec.host_op_ns * fault.factor >= BLOCKED_NS


def _stands_in(culprit: Mapping[str, Any], text: str) -> bool:
    """Whether the ranks of a culprit, or the stage or host that they are, stand in a text."""
    words = re.findall(r"\w+", re.sub(r"\d+\.\d+", " ", text))
    whole = culprit["host"] is not None and str(culprit["host"]) in text
    stage = culprit["stage"] is not None and f"tage {culprit['stage']} " in text
    return whole or stage or all(str(rank) in words for rank in culprit["ranks"][:_LISTED])


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
            error = "" if one.error is None else f", cost {one.error:+.0%}"
            sys.stderr.write(f"seed {one.seed}: {one.planted}\n  {one.text}{error}\n")
    costed = [one.error for one in found if one.error is not None]
    exact = sum(abs(error) <= TOLERANCE for error in costed)
    answered = [one for one in found if one.answers]
    print(
        f"{len(drawn)} jobs, {len(found)} with a fault that costs {BORDER * MATERIAL:.0%} of the "
        f"step or more: {sum(one.is_right for one in found)} first findings are right, "
        f"{len(found) - len(answered)} abstain; of {len(answered)} that name a cause or nobody, "
        f"rank right {sum(one.who for one in answered)}, "
        f"cause right {sum(one.cause for one in answered)}; "
        f"cost within {TOLERANCE:.0%} in {exact} of {len(costed)} that state one"
    )
    return 0 if all(one.is_right for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
