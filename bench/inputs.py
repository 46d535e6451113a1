"""Large input files with real layouts and mixes of events, made by repeating small files.

There are two families. ``generated`` repeats one rank of the demo generator. ``real`` repeats
public traces of the directory in CCLTUI_SHARED, and is absent without it. Each has the layout of
the profiler and older or reformatted ones. Files are reused by later runs; :mod:`bench.make`
writes them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

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
_RECIPE = 3  # increase it when the content of files of the same names changes


class TraceInput(Struct, frozen=True):
    """One large file, alone in its directory, and its counts of events."""

    family: Family
    layout: Layout
    path: Path
    size_bytes: int
    counts: Counts

    @property
    def name(self) -> str:
        """Family and layout, as text."""
        return f"{self.family} {self.layout}"


class RankSet(Struct, frozen=True):
    """A directory with one trace per rank; ``counts`` are the sums over all ranks."""

    directory: Path
    ranks: int
    size_bytes: int
    counts: Counts


class Inputs:
    """Inputs in ``folder``; files of earlier runs are reused."""

    def __init__(self, folder: Path, *, log: Callable[[str], None]) -> None:
        self._folder = folder
        self._log = log

    def families(self) -> tuple[Family, ...]:
        """Return the families whose source files are available."""
        there = all(public_file(path) is not None for path in PUBLIC.values())
        return ("generated", "real") if there else ("generated",)

    def trace(self, family: Family, layout: Layout, megabytes: int) -> TraceInput:
        """Return a rank of at least ``megabytes`` (1e6 bytes) of text in one layout."""
        directory = self._folder / f"{family}-{layout}-{megabytes}MB"
        counts = self._made(directory, "make_trace", family, layout, megabytes)
        path = directory / TRACE_NAME
        return TraceInput(family, layout, path, path.stat().st_size, counts)

    def ranks(self, number: Literal[8, 64], events_a_rank: int) -> RankSet:
        """Return the demo job of 8 ranks on two hosts, or of 64, repeated to ``events_a_rank``."""
        directory = self._folder / f"ranks-{number}x{events_a_rank}"
        counts = self._made(directory, "make_ranks", number, events_a_rank)
        sizes = [path.stat().st_size for path in directory.glob("kineto_trace_*.json")]
        return RankSet(directory, len(sizes), sum(sizes), counts)

    def _made(self, directory: Path, task: str, *arguments: str | int) -> Counts:
        """Write ``directory`` if it is not complete; return its counts."""
        # Beside the directory, not in it: other programs read every .json in it as a trace.
        facts_path = directory.with_name(directory.name + ".facts")
        known = _read_facts(facts_path)
        if known is not None and directory.is_dir():
            return known
        self._log(f"writing {directory.name}")
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        output = run(Command.child(task, directory, *arguments)).output
        facts_path.write_text(json.dumps({"recipe": _RECIPE, **output}))
        return Counts(output["events"], output["timed"])


def public_file(path: str) -> Path | None:
    """Return the path of a public trace, None if it is absent."""
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
