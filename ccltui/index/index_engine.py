"""What an engine is: it reads the files of a plan and reports, in the order in which they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from ccltui.index.index_state import FileRecord, IndexState, Plan
from ccltui.parsers.found_files import FoundFile


class Work(Struct, frozen=True):
    """What one run of an engine does: the files ``pending`` of ``plan``, by index."""

    state: IndexState
    plan: Plan
    pending: tuple[int, ...]
    found: Sequence[FoundFile]  # as discovered, by index in the plan


class EngineOptions(Struct, frozen=True):
    """Options of all engines; each uses its own."""

    workers: int | None = None  # None: what memory and CPUs, or the site, allow
    ranks_per_task: int | None = None
    site: str | None = None
    sbatch: tuple[str, ...] = ()


class BytesRead(Struct, frozen=True):
    """Progress within one file."""

    path: str
    done_bytes: int


class Message(Struct, frozen=True):
    """One line for the user."""

    text: str


class Computing(Struct, frozen=True):
    """What is computed next of the whole job, once all files are read."""

    what: str
    done: int
    total: int


EngineEvent = BytesRead | FileRecord | Message | Computing


class EngineError(RuntimeError):
    """An engine cannot run here, or refused the work; one line says why."""


class Engine(Protocol):
    """Reads files into the store. Whatever ended stays when it stops."""

    name: str
    reduces: bool
    """Whether it also writes the record of the job, so that the caller does not."""

    def run(self, work: Work, cancelled: Callable[[], bool]) -> Iterator[EngineEvent]:
        """Read the pending files, yielding what happens; return soon after ``cancelled``.

        Raises:
            EngineError: It cannot start.
            OSError: The state cannot be written.
        """
