"""Find the folders of training runs and the files of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from ccltui.parsers.cluster import (
    CLUSTER_BENCHMARK,
    GPU_TOPOLOGY,
    IB_STATUS,
    NCCL_LOG,
    NCCL_TESTS,
    NCCL_TESTS_JSON,
    NCCL_TOPOLOGY,
)
from ccltui.parsers.format import UNKNOWN, Format
from ccltui.parsers.found_files import Discovery, FoundFile
from ccltui.parsers.runs import (
    LAUNCHER_METADATA,
    PROFILE_SUMMARY,
    RUN_COMPLETE,
    STEP_LOG,
    TRAINING_LOG,
    TRAINING_METRICS,
)

ANCHORS: Final = frozenset({TRAINING_METRICS, STEP_LOG, LAUNCHER_METADATA, RUN_COMPLETE})
"""A folder that holds a file of one of these is a run."""

CLUSTER_FORMATS: Final = frozenset(
    {
        CLUSTER_BENCHMARK,
        NCCL_TESTS,
        NCCL_TESTS_JSON,
        NCCL_LOG,
        NCCL_TOPOLOGY,
        GPU_TOPOLOGY,
        IB_STATUS,
    }
)
"""Files about machines, in any folder."""

_NAMES: Final[dict[str, Format]] = {
    "training_metrics.json": TRAINING_METRICS,
    "training_steps.jsonl": STEP_LOG,
    "launcher_metadata.json": LAUNCHER_METADATA,
    "run_complete.txt": RUN_COMPLETE,
    "profile_summary.json": PROFILE_SUMMARY,
    "nccl_topo.xml": NCCL_TOPOLOGY,
    "ibstat.txt": IB_STATUS,
    "topo.txt": GPU_TOPOLOGY,
}
"""Format by file name, for files that are empty, cut off or not recognised."""


@dataclass(frozen=True)
class RunFolder:
    """A run: ``name`` is its folder below what was opened ("" for that itself), or its log."""

    name: str
    files: tuple[FoundFile, ...]

    def of(self, *formats: Format) -> tuple[FoundFile, ...]:
        """Return its files of some formats, also those recognised by name only."""
        return tuple(file for file in self.files if format_meant(file) in formats)


def format_meant(file: FoundFile) -> Format:
    """Return the format of a file by its content, by its name where that is not recognised."""
    if file.format is not UNKNOWN:
        return file.format
    return _NAMES.get(PurePosixPath(file.path).name.lower(), UNKNOWN)


def has_runs(files: Iterable[FoundFile]) -> bool:
    """Whether any file is of a run."""
    wanted = {*ANCHORS, TRAINING_LOG}
    return any(format_meant(file) in wanted for file in files)


def has_cluster(files: Iterable[FoundFile]) -> bool:
    """Whether any file describes machines."""
    return any(format_meant(file) in CLUSTER_FORMATS for file in files)


def run_folders(discovery: Discovery) -> tuple[RunFolder, ...]:
    """Return all runs below what was opened, in the natural order of their names.

    A folder with an anchor takes everything below it up to the next such folder. A training log
    outside of any is a run of its own.
    """
    files = [file for file in discovery.files if file.duplicate_of is None]
    homes = _homes(files)
    held: dict[str, list[FoundFile]] = defaultdict(list)
    alone: list[FoundFile] = []
    for file in files:
        home = _home(_folder(file), homes)
        if home is not None:
            held[home].append(file)
        elif file.format is TRAINING_LOG:
            alone.append(file)
    runs = [RunFolder(name, tuple(held[name])) for name in held]
    runs += _logs(alone, files)
    place = {file.path: number for number, file in enumerate(files)}
    return tuple(sorted(runs, key=lambda run: place[run.files[0].path]))


def _homes(files: Iterable[FoundFile]) -> set[str]:
    """Return the folders of runs.

    The line of completion is printed too: a log with it below a run, as torchrun writes for each
    rank, is of that run.
    """
    anchors = [file for file in files if format_meant(file) in ANCHORS]
    printed = [file for file in anchors if file.format is RUN_COMPLETE and not _is_named(file)]
    homes = {_folder(file) for file in anchors if file not in printed}
    return homes | {_folder(file) for file in printed if _home(_folder(file), homes) is None}


def _is_named(file: FoundFile) -> bool:
    return PurePosixPath(file.path).name.lower().startswith("run_complete")


def _logs(alone: Sequence[FoundFile], files: Sequence[FoundFile]) -> list[RunFolder]:
    """Return training logs as runs, named by their folder where that holds no other."""
    by_folder: dict[str, list[FoundFile]] = defaultdict(list)
    for file in alone:
        by_folder[_folder(file)].append(file)
    runs = []
    for folder, logs in by_folder.items():
        if len(logs) == 1:
            neighbours = [file for file in files if _folder(file) == folder]
            runs.append(RunFolder(folder, tuple(neighbours)))
        else:
            runs += [RunFolder(log.path, (log,)) for log in logs]
    return runs


def _folder(file: FoundFile) -> str:
    return file.path.rpartition("/")[0]


def _home(folder: str, homes: set[str]) -> str | None:
    """Return the nearest folder above that is a run."""
    while True:
        if folder in homes:
            return folder
        if not folder:
            return None
        folder = folder.rpartition("/")[0]
