"""Score the verdict on jobs that hang in a known way, of which some records are missing.

``python -m bench.verdicts.hung_jobs --seeds 500`` writes the records of each job (dumps, reports of
RAS, NCCL Inspector, logs of watchdogs), judges them, and prints how often the ranks at fault are
named, by fault and by whether there are dumps, and every wrong name.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ccltui.demo.hung_records import mixed_job, write_mixed
from ccltui.metrics.hangs.find_hang import hang_of
from ccltui.parsers.discovery.discover import discover

Mark = Literal["right", "partly", "wrong", "nobody", "quiet"]
"""Ranks at fault alone are named, or others beside them, or only others; nobody is named where
somebody is at fault, or where nobody is."""


class Scored(Struct, frozen=True):
    """One job: its fault, whether it left dumps, the mark, how sure, and the first sentence."""

    seed: int
    fault: str
    has_dumps: bool
    mark: Mark
    sure: str
    text: str


def scored(seed: int) -> Scored:
    """Write the records of the job of a seed, judge them, and mark the answer."""
    job = mixed_job(seed)
    with tempfile.TemporaryDirectory() as folder:
        write_mixed(Path(folder), job)
        found = hang_of(discover(Path(folder)))
    truth = {str(rank) for rank in job.truth}
    named = set(found.ranks) if found is not None and found.num_blamed else set()
    mark: Mark = "nobody" if truth else "quiet"
    if named:
        mark = "right" if named <= truth else "partly" if named & truth else "wrong"
    sure, text = ("", "") if found is None else (found.sure, found.text)
    return Scored(seed, job.plan.fault, bool(job.kept.dumps), mark, sure, text)


def _table(marks: Sequence[Scored]) -> list[str]:
    rows = ["fault        dumps  jobs  right  partly  wrong  nobody  quiet"]
    by_kind: dict[tuple[str, bool], Counter[str]] = defaultdict(Counter)
    for one in marks:
        by_kind[one.fault, one.has_dumps][one.mark] += 1
        by_kind["all", one.has_dumps][one.mark] += 1
    for (fault, has_dumps), counts in sorted(by_kind.items(), key=lambda one: (not one[0][1], one)):
        cells = "  ".join(f"{counts[mark]:6}" for mark in ("right", "partly", "wrong", "nobody",
                                                          "quiet"))  # fmt: skip
        rows.append(f"{fault:12} {'yes' if has_dumps else 'no':5} {counts.total():5} {cells}")
    return rows


def main(arguments: Sequence[str]) -> int:
    """Print the scores; return 1 where a wrong rank is named with more than low confidence."""
    parser = argparse.ArgumentParser(prog="hung_jobs", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args(arguments)
    marks = [scored(seed) for seed in range(options.first, options.first + options.seeds)]
    print("\n".join(_table(marks)))
    bad = [one for one in marks if one.mark in ("wrong", "partly")]
    for one in bad:
        print(f"{one.seed} {one.fault} {one.mark} {one.sure}: {one.text}")
    return int(any(one.sure != "low" for one in bad))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
