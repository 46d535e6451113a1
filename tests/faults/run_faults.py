"""Send signals to commands and to the processes that they start, at random moments.

``python tests/faults/run_faults.py --signals 500`` prints how many trials ended as they should, and
what is wrong with the others; the status is 1 if any is. ``make faults`` runs it.
"""

from __future__ import annotations

import argparse
import collections
import random
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trials import Outcome, Plan, answer, leftovers, run_trial, shown

from ccltui.demo import Spec, write_job

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL)


def main() -> int:
    """Run the trials; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--signals", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--together", type=int, default=2, help="trials at the same time")
    options = parser.parse_args()
    for number in _SIGNALS[:3]:  # nohup and a shell's «&» ignore some, and programs inherit that
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        home = Path(name)
        job = home / "job"
        write_job(job, many_ranks())
        (home / "tmp").mkdir()
        begun = time.monotonic()
        expected = answer(job, home)
        cold_s = time.monotonic() - begun
        assert expected.returncode == 0, expected.stderr
        trials = Trials(home, job, expected.stdout, cold_s)
        plans = drawn(random.Random(options.seed), options.signals, cold_s)
        with ThreadPoolExecutor(options.together) as threads:
            outcomes = list(threads.map(trials.run, range(len(plans)), plans))
    return report(outcomes)


def many_ranks(ranks: int = 24) -> Spec:
    """Return a job with so much text that other processes read it."""
    return Spec(tp=1, pp=1, dp_shard=ranks, steps=4, stragglers=(), compress=False)


def drawn(rng: random.Random, count: int, cold_s: float) -> list[Plan]:
    """Return trials of every kind, with signals all along the run and a little after."""
    return [
        Plan(
            kind=rng.choice(("metrics", "metrics", "explorer")),
            cached=rng.random() < 0.3,
            number=_SIGNALS[at % len(_SIGNALS)],
            to_child=rng.random() < 0.3,
            after_s=rng.uniform(0.02, 1.1 * cold_s),
        )
        for at in range(count)
    ]


class Trials:
    """Trials on one job; ``run`` may be called from several threads."""

    def __init__(self, home: Path, job: Path, expected: str, cold_s: float) -> None:
        self._home, self._job, self._expected, self._cold_s = home, job, expected, cold_s

    def run(self, number: int, plan: Plan) -> Outcome:
        """Carry out a trial in a folder of its own, and look whether the next command tidies."""
        folder = self._home / f"trial{number}"
        (folder / "tmp").mkdir(parents=True)
        if plan.cached:
            shutil.copytree(self._home / "cache", folder / "cache")
        try:
            outcome = run_trial(plan, self._job, folder, self._expected)
            if plan.number == signal.SIGKILL:
                self._require_swept(outcome, folder)
        except Exception as error:
            outcome = Outcome(plan, problems=[f"the trial failed: {type(error).__name__}: {error}"])
        shutil.rmtree(folder, ignore_errors=True)
        if outcome.problems:
            print(shown([outcome]), flush=True)
        print("!" if outcome.problems else ".", end="", file=sys.stderr, flush=True)
        return outcome

    def _require_swept(self, outcome: Outcome, folder: Path) -> None:
        """The next command has the same answer from the same cache, and removes what was left."""
        after = answer(self._job, folder)
        if (after.returncode, after.stdout) != (0, self._expected):
            outcome.problems.append(f"the next command differs: {after.stderr[:300]}")
        if not leftovers(folder):
            return
        answer(self._job, folder, "--no-cache")  # one that needs a temporary folder
        files = [str(path.relative_to(folder)) for path in leftovers(folder)]
        if files:
            outcome.problems.append(f"the next command leaves files: {files[:4]}")


def report(outcomes: list[Outcome]) -> int:
    """Print how many trials there were by signal and target, and every problem."""
    print(file=sys.stderr)
    groups = collections.Counter(
        (one.plan.number.name, one.plan.kind, "child" if one.plan.to_child else "command")
        for one in outcomes
        if one.sent
    )
    for (name, kind, target), count in sorted(groups.items()):
        print(f"{name:8} {kind:9} {target:8} {count:5}")
    bad = [one for one in outcomes if one.problems]
    sent = sum(groups.values())
    late = len(outcomes) - sent
    print(f"{sent} signals sent, {late} runs ended before; {len(bad)} with a problem")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
