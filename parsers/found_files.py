"""What discovery returns: files with kind and rank, and the captures they form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from ccltui.parsers.columns import Note, RankSource
from ccltui.parsers.errors import NotFoundError
from ccltui.parsers.names import listed, shown
from ccltui.parsers.text.compression import Compression

Kind = Literal[
    "kineto",  # a Chrome trace of PyTorch: object with traceEvents, or a bare list of events
    "execution_trace",  # schema and nodes: shapes and dependencies, no times
    "nsys_sqlite",
    "nsys_tables",  # Parquet or Arrow tables of an export; one file stands for all
    "nsys_report",  # .nsys-rep, .qdrep: only nsys itself reads it
    "nsys_text",  # output of nsys stats in any of its formats
    "workload_card",
    "cluster_benchmark",
    "training_metrics",
    "training_log",  # step lines of a training program
    "step_log",  # one JSON object a step
    "launcher_metadata",
    "run_complete",  # the mark that a run ended by itself
    "nccl_log",
    "nccl_tests",  # what nccl-tests print
    "nccl_topology",  # XML
    "gpu_topology",  # nvidia-smi topo -m
    "ib_status",  # ibstat
    "run_metadata",  # manifests, counts of devices, tokens a step
    "profile_summary",
    "serving_results",
    "expert_stats",
    "timing_stats",
    "log",
    "archive",
    "memory_snapshot",  # a pickle: never loaded
    "tpu_trace",
    "unknown",
]


Source = Literal["torch", "nsys"]
"""Which profiler recorded a capture."""


class Beside(msgspec.Struct, frozen=True):
    """A file that adds to what another says: an execution trace of the same rank."""

    path: str
    real_path: str


class FoundFile(msgspec.Struct, frozen=True):
    """One file below the directory that was opened.

    ``path`` is relative and safe to print; open ``real_path``. ``rank`` is provisional: it comes
    from the head or tail of the file, and the reader of the whole file has the last word.
    """

    path: str
    real_path: str
    kind: Kind
    size_bytes: int
    compression: Compression = "none"
    rank: int | None = None
    rank_source: RankSource = "none"
    capture: str = ""
    duplicate_of: str | None = None  # path of the file it repeats: link, or equal content
    problem: str | None = None  # why it is not used, one sentence
    world_size: int | None = None
    beside: Beside | None = None


class Capture(msgspec.Struct, frozen=True):
    """Traces that were recorded together: one timeline, one file a rank.

    ``files`` are Kineto traces, or files of nsys, sorted by rank, then path, without
    repetitions; a file that states no rank stands last. ``complete``: every rank of
    ``world_size`` is there, or, where no file states the world size, as many files as in the
    fullest capture of the directory.
    """

    name: str  # "" when the directory is one capture, else "iteration_5" or a folder
    iteration: int | None
    files: tuple[FoundFile, ...]
    ranks: tuple[int, ...]
    world_size: int | None
    complete: bool
    notes: tuple[Note, ...] = ()
    source: Source = "torch"


class Discovery(msgspec.Struct, frozen=True):
    """Everything that was found, in natural order of paths."""

    root: str
    files: tuple[FoundFile, ...]
    captures: tuple[Capture, ...]
    notes: tuple[Note, ...] = ()

    def choose(
        self,
        *,
        iteration: int | None = None,
        capture: str | None = None,
        source: Source | None = None,
    ) -> Capture:
        """The last complete capture that fits, or the fullest one when none is complete.

        ``capture`` is a name, or the unambiguous end of one. Kineto traces come before files of
        nsys unless ``source`` is given. Raises NotFoundError, which lists what exists, when
        nothing fits.
        """
        fitting = [
            found
            for found in self.captures
            if (iteration is None or found.iteration == iteration)
            and (capture is None or found.name in self._names_meant(capture))
            and (source is None or found.source == source)
        ]
        fitting = [found for found in fitting if found.source == "torch"] or fitting
        if not fitting:
            raise NotFoundError(self._nothing_fits(iteration, capture), path=shown(self.root))
        return max(
            enumerate(fitting),
            key=lambda item: (item[1].complete, 0 if item[1].complete else _size(item[1]), item[0]),
        )[1]

    def _names_meant(self, capture: str) -> tuple[str, ...]:
        names = [found.name for found in self.captures]
        wanted = capture.rstrip("/")
        if wanted in names:
            return (wanted,)
        ends = tuple(name for name in names if name.endswith("/" + wanted))
        return ends if len(ends) == 1 else ()

    def _nothing_fits(self, iteration: int | None, capture: str | None) -> str:
        if not self.captures:
            return f"no trace that can be opened; found {found_instead(self.files)}"
        asked = [] if iteration is None else [f"iteration {iteration}"]
        asked += [] if capture is None else [f"capture {capture!r}"]
        names = [found.name or "(the whole directory)" for found in self.captures]
        return f"no {' and '.join(asked)} here; there is {listed(names, 20)}"


def found_instead(files: Sequence[FoundFile]) -> str:
    """What a directory holds where no trace in it can be opened."""
    if not files:
        return "no file at all"
    if len(files) == 1:
        (only,) = files
        return f"{only.path}: {only.problem or only.kind.replace('_', ' ')}"
    kinds = Counter(found.kind for found in files)
    return listed([_counted(n, kind) for kind, n in sorted(kinds.items())])


def _counted(count: int, kind: str) -> str:
    return f"{count} {kind.replace('_', ' ')} file{'' if count == 1 else 's'}"


def _size(capture: Capture) -> int:
    return len({f.rank if f.rank is not None else f.path for f in capture.files})
