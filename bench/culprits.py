"""Measure how often planted stragglers and causes are found in random synthetic jobs.

python -m bench.culprits [--jobs N] [--first SEED] [--metadata full | names_only] [--large]

A job is generated from its seed, written and read back: 2 to 16 ranks (32 or 64 with --large) in
several groups, pipelines, hosts whose clocks are up to a second apart and drift by up to 50 ppm,
kernels of varying length, collectives that end unevenly, windows that start late, truncated files,
and one rank that is late for one cause.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct, structs

from ccltui.demo import Cut, LateStart, Spec, Straggler, Truth, write_job
from ccltui.demo.demo_job import build
from ccltui.demo.truth import CallTruth
from ccltui.metrics.collectives.matching.match import MEDIUM
from ccltui.metrics.findings.causes.cause_search import UNKNOWN, Link, job_causes
from ccltui.metrics.findings.causes.chain import PIPELINE, chains_of
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

VERDICTS: Final = {
    "compute": "compute",
    "kernel": "compute",
    "more_kernels": "more_kernels",
    "copies": "copies",
    "data_loading": "data_loading",
    "checkpoint": "checkpoint",
    "garbage_collection": "garbage_collection",
    "allocation": "allocation",
    "synchronisation": "synchronisation",
    "operator": "host_blocked",
    "host": "host_stall",
}
"""Expected cause in the results, by planted cause."""

NOTABLE: Final = 0.25
"""Lags below this share of the planted delay are attributed to chance."""


class Outcome(Struct, frozen=True):
    """Result of one job.

    Attributes:
        seen: Whether any collective waited for the planted straggler.
        named: Whether it was found with its cause.
        wrong: Other roots, found with medium or high confidence.
    """

    seen: bool
    named: bool
    wrong: tuple[str, ...]


SMALL: Final = (1, 2, 2, 3, 3, 4)
LARGE: Final = (5, 6)


def random_job(
    seed: int, metadata: str = "full", doublings: Sequence[int] = SMALL
) -> tuple[Straggler, Spec]:
    """Return the straggler and the job of a seed.

    ``doublings`` are the possible base-2 logarithms of the number of ranks.
    """
    rng = random.Random(seed)
    shape = {"tp": 1, "pp": 1, "dp_replicate": 1, "dp_shard": 1}
    for _ in range(rng.choice(doublings)):
        shape[rng.choice(list(shape))] *= 2
    ranks = shape["tp"] * shape["pp"] * shape["dp_replicate"] * shape["dp_shard"]
    per_node = rng.choice((4, 8))
    hosts = -(-ranks // per_node)
    cause: Any = rng.choice(list(VERDICTS))
    late = Straggler(
        rng.randrange(ranks),
        cause,
        rng.randint(1_000_000, 5_000_000),
        rng.choice((None, (2,))),
    )
    more: dict[str, Any] = {}
    if rng.random() < 0.3:
        more["late_starts"] = (LateStart(rng.randrange(ranks), rng.randint(1, 4)),)
    if rng.random() < 0.2:
        more["cuts"] = (Cut(rng.randrange(ranks), rng.uniform(0.8, 0.98)),)
    spec = Spec.quiet(
        **shape,
        experts=shape["dp_shard"] > 1 and rng.random() < 0.3,
        gpus_per_node=per_node,
        steps=5,
        layers=shape["pp"] * rng.randint(1, 2),
        micro_batches=rng.randint(2, 4),
        pipeline=rng.choice(("1f1b", "gpipe")),
        sequence_parallel=rng.random() < 0.3,
        overlap_dp=rng.random() < 0.7,
        sync_each_step=rng.random() < 0.8,
        world_allreduce=rng.random() < 0.8,
        gemm_ns=71_017,
        attention_ns=57_011,
        grad_norm_ns=30_011,
        optimizer_ns=140_009,
        hidden=1024,
        seq_len=512,
        jitter_ns=rng.choice((1_000, 3_000, 10_000)),
        end_skew_ns=rng.choice((0, 3_000, 8_000)),
        stragglers=(late,),
        clock_offsets_ns=tuple(rng.randint(-(10**9), 10**9) for _ in range(hosts)),
        clock_drifts_ppb=tuple(rng.randint(-50_000, 50_000) for _ in range(hosts)),
        metadata=metadata,
        with_python=rng.random() < 0.3,
        seed=seed,
        **more,
    )
    return late, spec


def outcome(directory: Path, late: Straggler, spec: Spec) -> Outcome:
    """Write the job, read it back, and compare the causes found with the planted one."""
    truth = write_job(directory, spec)
    view = View(open_job(directory, cache_dir=directory.with_name("cache")))
    wanted = str(late.rank), VERDICTS[late.cause]
    blamed: Counter[tuple[str, str]] = Counter()
    wrong: Counter[tuple[str, str]] = Counter()
    for lag_ns, root in _roots(view, NOTABLE * late.extra_ns):
        key = root.label, root.cause
        if root.cause in (PIPELINE, UNKNOWN):
            continue
        blamed[key] += lag_ns
        if key != wanted and root.confidence >= MEDIUM:
            wrong[key] += lag_ns
    worst = max(blamed, key=lambda key: blamed[key], default=None)
    texts = tuple(f"rank {label}: {cause}" for label, cause in wrong)
    return Outcome(_waited_for(truth, late), worst == wanted, texts)


def _roots(view: View, least_ns: float) -> list[tuple[int, Link]]:
    """Return lag and root of every collective whose lag is at least ``least_ns``."""
    notable = [
        (number, int(row))
        for number, group in enumerate(view.arrivals.groups)
        for row in np.flatnonzero((group.last >= 0) & (group.lag_ns >= least_ns))
    ]
    lags = (int(view.arrivals.groups[number].lag_ns[row]) for number, row in notable)
    chains = chains_of(job_causes(view), notable)
    return [(lag, chain[-1]) for lag, chain in zip(lags, chains, strict=True)]


def _waited_for(truth: Truth, late: Straggler) -> bool:
    """Return whether the files can show that a collective waited for the straggler alone.

    It must wait notably longer than in the same job without a straggler, and the files must have
    an earlier collective of its group, so that the work between the two is recorded.
    """
    usual = {key: call.lag_ns for key, call in _keyed(build(_without(truth.spec)).truth)}
    seen_groups: set[tuple[int, ...]] = set()
    for key, call in _keyed(truth):
        longer = call.lag_ns - usual.get(key, 0) if call.complete else 0
        alone = call.complete and call.last == (late.rank,) and call.group_ranks in seen_groups
        if alone and longer >= NOTABLE * late.extra_ns:
            return True
        if call.complete:
            seen_groups.add(call.group_ranks)
    return False


def _without(spec: Spec) -> Spec:
    return structs.replace(spec, stragglers=(), late_starts=(), cuts=())


def _keyed(truth: Truth) -> list[tuple[tuple[tuple[int, ...], int], CallTruth]]:
    """Return collectives in order, keyed by group and index within the group."""
    counts: Counter[tuple[int, ...]] = Counter()
    found = []
    for call in truth.collectives:
        if call.type in ("Send", "Recv"):
            continue
        found.append(((call.group_ranks, counts[call.group_ranks]), call))
        counts[call.group_ranks] += 1
    return found


def main() -> int:
    """Print one line per job with an error, and the rates."""
    parser = argparse.ArgumentParser(
        prog="bench.culprits", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed of the first job")
    parser.add_argument("--metadata", default="full", choices=("full", "no_seq", "names_only"))
    parser.add_argument("--large", action="store_true", help="32 or 64 ranks")
    options = parser.parse_args()
    seen = named = wrong = 0
    for seed in range(options.first, options.first + options.jobs):
        late, spec = random_job(seed, options.metadata, LARGE if options.large else SMALL)
        with tempfile.TemporaryDirectory() as folder:
            found = outcome(Path(folder) / "job", late, spec)
        seen += found.seen
        named += found.seen and found.named
        wrong += bool(found.wrong)
        if (found.seen and not found.named) or found.wrong:
            sys.stderr.write(f"seed {seed}: rank {late.rank}, {late.cause}: {found}\n")
    print(f"{options.metadata}: {named} of {seen} culprits named with their cause, ", end="")
    print(f"{options.jobs - seen} kept nobody waiting, {wrong} jobs with a confident error")
    return 0


if __name__ == "__main__":
    sys.exit(main())
