"""Which folders are runs, and which files belong to each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from ccltui.parsers.found_files import Discovery, FoundFile, Kind

ANCHORS: Final[frozenset[Kind]] = frozenset(
    {"training_metrics", "step_log", "launcher_metadata", "run_complete"}
)
"""A folder that holds one of these is a run."""

CLUSTER_KINDS: Final[frozenset[Kind]] = frozenset(
    {
        "cluster_benchmark",
        "nccl_tests",
        "nccl_log",
        "nccl_topology",
        "gpu_topology",
        "ib_status",
    }
)
"""Files about machines, wherever they lie."""

_NAMES: Final[dict[str, Kind]] = {
    "training_metrics.json": "training_metrics",
    "training_steps.jsonl": "step_log",
    "launcher_metadata.json": "launcher_metadata",
    "run_complete.txt": "run_complete",
    "profile_summary.json": "profile_summary",
    "nccl_topo.xml": "nccl_topology",
    "ibstat.txt": "ib_status",
    "topo.txt": "gpu_topology",
}
"""What a file was to be whose content says nothing: empty, cut off, or garbage."""


@dataclass(frozen=True)
class RunFolder:
    """A run: ``name`` is its folder below what was opened ("" for that itself), or its log."""

    name: str
    files: tuple[FoundFile, ...]

    def of(self, *kinds: Kind) -> tuple[FoundFile, ...]:
        """Its files of some kinds, also those that only their name tells."""
        return tuple(file for file in self.files if kind_meant(file) in kinds)


def kind_meant(file: FoundFile) -> Kind:
    """What a file is by its content; of one that is nothing known, what its name promises."""
    if file.kind != "unknown":
        return file.kind
    return _NAMES.get(PurePosixPath(file.path).name.lower(), "unknown")


def has_runs(files: Iterable[FoundFile]) -> bool:
    """Whether any file is of a run."""
    wanted = {*ANCHORS, "training_log"}
    return any(kind_meant(file) in wanted for file in files)


def has_cluster(files: Iterable[FoundFile]) -> bool:
    """Whether any file tells of machines."""
    return any(kind_meant(file) in CLUSTER_KINDS for file in files)


def run_folders(discovery: Discovery) -> tuple[RunFolder, ...]:
    """All runs below what was opened, in the natural order of their names.

    A folder with an anchor takes everything below it up to the next such folder. A training log
    outside of any is a run of its own.
    """
    files = [file for file in discovery.files if file.duplicate_of is None]
    homes = {_folder(file) for file in files if kind_meant(file) in ANCHORS}
    held: dict[str, list[FoundFile]] = defaultdict(list)
    alone: list[FoundFile] = []
    for file in files:
        home = _home(_folder(file), homes)
        if home is not None:
            held[home].append(file)
        elif file.kind == "training_log":
            alone.append(file)
    runs = [RunFolder(name, tuple(held[name])) for name in held]
    runs += _logs(alone, files)
    place = {file.path: number for number, file in enumerate(files)}
    return tuple(sorted(runs, key=lambda run: place[run.files[0].path]))


def _logs(alone: Sequence[FoundFile], files: Sequence[FoundFile]) -> list[RunFolder]:
    """Training logs as runs: named by their folder where that holds no other."""
    by_folder: dict[str, list[FoundFile]] = defaultdict(list)
    for file in alone:
        by_folder[_folder(file)].append(file)
    runs = []
    for folder, logs in by_folder.items():
        if len(logs) == 1:
            beside = [file for file in files if _folder(file) == folder]
            runs.append(RunFolder(folder, tuple(beside)))
        else:
            runs += [RunFolder(log.path, (log,)) for log in logs]
    return runs


def _folder(file: FoundFile) -> str:
    return file.path.rpartition("/")[0]


def _home(folder: str, homes: set[str]) -> str | None:
    """The nearest folder above that is a run."""
    while True:
        if folder in homes:
            return folder
        if not folder:
            return None
        folder = folder.rpartition("/")[0]
