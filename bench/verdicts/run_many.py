"""Score many jobs in several processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import msgspec

from bench.verdicts.scored_job import Scored, score

EVERY = 50
"""Jobs between two lines of progress."""


def score_many(seeds: Sequence[int], workers: int, log: Callable[[str], None]) -> list[Scored]:
    """Score the jobs of all seeds, in their order."""
    found: list[Scored] = []
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for job in pool.map(score, seeds, chunksize=4):
            found.append(job)
            if len(found) % EVERY == 0:
                log(f"  culprits: {len(found)} of {len(seeds)}")
    return found


def write_jobs(path: Path, jobs: Sequence[Scored]) -> None:
    """Write one line of JSON per job."""
    lines = [msgspec.json.encode(job) for job in jobs]
    path.write_bytes(b"\n".join([*lines, b""]))
