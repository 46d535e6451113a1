"""Large trace files: real layouts and real mixes of events, made by repeating small files.

Two families. ``generated`` repeats one rank of the demo generator; ``real`` repeats public
traces of the directory that CCLTUI_SHARED names, and is absent where that is. Each comes in
the profiler's own layout and in older or re-written ones. A folder keeps them for the next
run; :mod:`bench.make` writes them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bench.measure import ROOT, Command, run
from bench.repeat import Counts

Family = Literal["generated", "real"]
Layout = Literal["native", "one_line", "indent4", "2020"]
LAYOUTS: tuple[Layout, ...] = ("native", "one_line", "indent4", "2020")
TRACE_NAME = "kineto_trace_0.json"
PUBLIC = {
    "native": "traces/hta/nccl_parser_config/nccl_data.json.gz",
    "2020": ("traces/kineto/samples/resnet50_autograd_api_num_workers_0/worker0.pt.trace.json.gz"),
}
_RECIPE = 3  # raised when the same names would stand for other bytes


@dataclass(frozen=True, slots=True)
class TraceInput:
    """One large file, alone in its directory, and what is in it."""

    family: Family
    layout: Layout
    path: Path
    size_bytes: int
    counts: Counts

    @property
    def name(self) -> str:
        """Family and layout."""
        return f"{self.family} {self.layout}"


@dataclass(frozen=True, slots=True)
class RankSet:
    """A directory of one trace a rank; ``counts`` of all of them together."""

    directory: Path
    ranks: int
    size_bytes: int
    counts: Counts


class Inputs:
    """Inputs in ``folder``; what is there from an earlier run is used again."""

    def __init__(self, folder: Path, *, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._say = say

    def families(self) -> tuple[Family, ...]:
        """The families that can be made here."""
        there = all(public_file(path) is not None for path in PUBLIC.values())
        return ("generated", "real") if there else ("generated",)

    def trace(self, family: Family, layout: Layout, megabytes: int) -> TraceInput:
        """A rank of at least ``megabytes`` (1e6 bytes) of text in one layout."""
        directory = self._folder / f"{family}-{layout}-{megabytes}MB"
        counts = self._made(directory, "make_trace", family, layout, megabytes)
        path = directory / TRACE_NAME
        return TraceInput(family, layout, path, path.stat().st_size, counts)

    def ranks(self, number: Literal[8, 64], events_a_rank: int) -> RankSet:
        """The demo job of 8 ranks on two hosts, or of 64, repeated to ``events_a_rank``."""
        directory = self._folder / f"ranks-{number}x{events_a_rank}"
        counts = self._made(directory, "make_ranks", number, events_a_rank)
        sizes = [path.stat().st_size for path in directory.glob("kineto_trace_*.json")]
        return RankSet(directory, len(sizes), sum(sizes), counts)

    def _made(self, directory: Path, task: str, *arguments: str | int) -> Counts:
        """Counts of what is in ``directory``, after writing it where it is not whole."""
        # Beside the directory: peers take every .json in it for a trace.
        facts_path = directory.with_name(directory.name + ".facts")
        known = _read_facts(facts_path)
        if known is not None and directory.is_dir():
            return known
        self._say(f"writing {directory.name}")
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        said = run(Command.child(task, directory, *arguments)).said
        facts_path.write_text(json.dumps({"recipe": _RECIPE, **said}))
        return Counts(said["events"], said["timed"])


def public_file(path: str) -> Path | None:
    """A public trace, None where they are absent."""
    found = Path(os.environ.get("CCLTUI_SHARED", ROOT.parent / "shared")) / path
    return found if found.is_file() else None


def _read_facts(path: Path) -> Counts | None:
    try:
        facts: Mapping[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    if facts.get("recipe") != _RECIPE:
        return None
    return Counts(facts["events"], facts["timed"])
