"""Measure commands that compute metrics of ranks in the store, as whole processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from bench.inputs import RankSet
from bench.measure import Command, Run, RunError, Spread, alternate

ALL = "all"
ASKED = (ALL, "straggler_lag", "what_if_no_straggler", "exposed_communication")


class FromStore(Struct, frozen=True):
    """Cost of ``ccltui DIR --metric NAME`` for every name in ``ASKED``, of ranks of one size."""

    ranks: int
    events: int  # of all ranks
    cpu_s: Mapping[str, Spread]
    wall_s: Mapping[str, Spread]
    peak_mib: Mapping[str, Spread]  # of the largest process

    @property
    def title(self) -> str:
        """Number and size of the ranks, as text."""
        return f"{self.ranks} ranks of {self.events / self.ranks:,.0f} events"


def from_store(
    found: RankSet, store: Path, rounds: int, *, log: Callable[[str], None]
) -> FromStore:
    """Compute each metric in turn, ``rounds`` times, from ``store``. Raises RunError."""
    commands = {name: Command.child("metric", found.directory, name, store) for name in ASKED}
    runs, failures = alternate(commands, rounds, log=log)
    for name, problem in failures.items():
        raise RunError(f"{name}: {problem}")
    for name, done in runs.items():
        if done[0].output["value"] is None:
            raise RunError(f"{name} of {found.directory} has no value")

    def spread(of: Callable[[Run], float]) -> dict[str, Spread]:
        return {name: Spread.of([of(one) for one in done]) for name, done in runs.items()}

    return FromStore(
        found.ranks,
        found.counts.events,
        cpu_s=spread(lambda one: one.cpu_s),
        wall_s=spread(lambda one: one.wall_s),
        peak_mib=spread(lambda one: one.peak_mib),
    )
