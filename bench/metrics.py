"""Metrics as a user asks for them, of ranks that are in the store: whole processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.inputs import RankSet
from bench.measure import Command, Run, RunError, Spread, alternate

ALL = "all"
ASKED = (ALL, "straggler_lag", "what_if_no_straggler", "exposed_communication")


@dataclass(frozen=True, slots=True)
class FromStore:
    """``ccltui DIR --metric NAME`` for every name of ``ASKED``, of ranks of one size."""

    ranks: int
    events: int  # of all ranks
    cpu_s: Mapping[str, Spread]
    wall_s: Mapping[str, Spread]
    peak_mib: Mapping[str, Spread]  # of the largest process

    @property
    def title(self) -> str:
        """Which ranks they are."""
        return f"{self.ranks} ranks of {self.events / self.ranks:,.0f} events"


def from_store(
    found: RankSet, store: Path, rounds: int, *, say: Callable[[str], None]
) -> FromStore:
    """Ask for each in turn, ``rounds`` times; ``store`` holds the ranks. Raises RunError."""
    commands = {name: Command.child("metric", found.directory, name, store) for name in ASKED}
    runs, failures = alternate(commands, rounds, say=say)
    for name, problem in failures.items():
        raise RunError(f"{name}: {problem}")
    for name, done in runs.items():
        if done[0].said["value"] is None:
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
