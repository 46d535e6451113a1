"""State of an index run, as files in the store: plan, a record for each file read, and the job's.

Every file is written under another name and renamed, so that engines, tasks and a later command on
any node see whole ones without locks; one whose checksum does not match counts as absent. Whoever
starts ``ccltui index`` again continues from here. Each task of an array imports this module, so it
imports neither discovery nor metrics.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import time
import uuid
from pathlib import Path
from typing import ClassVar, Final, Literal, TypeVar

import msgspec

from ccltui.index import STATE_FOLDER
from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import Companion
from ccltui.parsers.machine_limits import peak_bytes
from ccltui.parsers.store.store_entry import checked, is_shared, with_checksum

PLAN_VERSION: Final = 1
_TEXT_BYTES_PER_BYTE: Final = {"none": 1, "gzip": 12, "zstd": 12, "export": 1}


class PlannedFile(msgspec.Struct, frozen=True):
    """One file to read; paths are bytes, as they need not be text."""

    path: str  # relative, safe to print
    real_path: bytes
    kind: str
    size_bytes: int
    form: str  # its compression, or "export"
    key: str  # of its entry in the store
    rank: int | None = None
    companion_path: str = ""
    companion_real_path: bytes = b""

    @property
    def text_bytes(self) -> int:
        """Estimated bytes of uncompressed text."""
        return self.size_bytes * _TEXT_BYTES_PER_BYTE[self.form]

    @property
    def peak_bytes(self) -> float:
        """Estimated memory of the process that reads it."""
        return peak_bytes(self.size_bytes, self.form)

    def source(self) -> Path:
        """Return the path to open."""
        return Path(os.fsdecode(self.real_path))

    def companion(self) -> Companion | None:
        """Return the file that adds to its columns."""
        if not self.companion_real_path:
            return None
        return Companion(self.companion_path, os.fsdecode(self.companion_real_path))


class OpenOptions(msgspec.Struct, frozen=True):
    """Options by which the same job is opened elsewhere, as on the command line."""

    rank_map: str | None = None
    iteration: int | None = None
    capture: str | None = None
    profile_mode: Literal["auto", "torch", "nsys"] = "auto"


class Plan(msgspec.Struct, frozen=True):
    """The files of one job, and lists of their indices: one for each task of an array."""

    path: bytes  # absolute, of the directory
    store: bytes
    files: tuple[PlannedFile, ...]
    tasks: tuple[tuple[int, ...], ...]
    open_options: OpenOptions = OpenOptions()
    version: int = PLAN_VERSION

    @property
    def digest(self) -> str:
        """Name of what the plan covers, whatever its tasks: equal where the same files are read."""
        keys = "\n".join(sorted(planned.key for planned in self.files))
        return hashlib.blake2b(keys.encode(), digest_size=16).hexdigest()

    def directory(self) -> Path:
        """Return the directory of the traces."""
        return Path(os.fsdecode(self.path))

    def store_path(self) -> Path:
        """Return the directory of the store."""
        return Path(os.fsdecode(self.store))


LATEST: Final = "plan"
"""Name of the plan of the last command."""
_T = TypeVar("_T")


class FileRecord(msgspec.Struct, frozen=True):
    """What became of one file; ``error`` is None where its columns are in the store.

    ``is_lost``: the content of the file is not known to be wrong, so that another run tries again.
    """

    key: str
    path: str
    ranks: tuple[int | None, ...] = ()
    error: str | None = None
    is_lost: bool = False
    cached: bool = False
    seconds: float = 0.0
    cpu_s: float = 0.0
    host: str = ""
    attempts: int = 1
    defect: str = ""


class JobRecord(msgspec.Struct, frozen=True):
    """What is known of the whole job once all of its files are read."""

    digest: str  # of the plan
    ranks: int
    collectives: int  # matched, all members present
    groups: int
    problem: str = ""  # why collectives are absent
    sources: str = ""  # digest of the program that matched the ranks
    is_whole: bool = False  # whether every metric that is kept was computed


class Submission(msgspec.Struct, frozen=True):
    """How tasks were submitted: options of sbatch, and rounds so far."""

    options: tuple[str, ...]
    python: str
    per_task: int | None = None  # files of one task, None: by size
    rounds: int = 1


class IndexState:
    """The state folder of one job."""

    ANNOUNCE_S: ClassVar = 5.0
    """How often a command that waits shows that it still does."""
    SILENT_S: ClassVar = 30.0
    """Age from which such a sign counts as left behind by a command that was killed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def of(cls, store: Path, traces: str, capture: str) -> IndexState:
        """Return the state of a capture of a directory, below the store."""
        name = hashlib.blake2b(digest_size=8)
        name.update(os.fsencode(os.path.realpath(traces)))
        name.update(b"\0" + os.fsencode(capture))
        return cls(store / STATE_FOLDER / name.hexdigest())

    @property
    def name(self) -> str:
        """Short name, which jobs of a scheduler have too."""
        return f"ccltui-index-{self.directory.name}"

    @property
    def logs(self) -> Path:
        """Folder of what tasks print."""
        return self.directory / "logs"

    def prepare(self, plan: Plan) -> None:
        """Write the plan. Raises OSError."""
        group = is_shared(plan.store_path())
        for folder in (self.directory, self.logs, self._records, self._attempts):
            folder.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):  # another user's
                folder.chmod(0o2770 if group else 0o700)
        self.write_plan(plan)

    def write_plan(self, plan: Plan, name: str = LATEST) -> None:
        """Write a plan, also under a name of its own for tasks that are numbered by it."""
        self._write(self.directory / f"{name}.json", plan)

    def plan(self, name: str = LATEST) -> Plan:
        """Return a plan. Raises TraceError where there is none that this version can read."""
        path = self.directory / f"{name}.json"
        plan = self._read(path, Plan)
        if plan is None or plan.version != PLAN_VERSION:
            raise TraceError("no plan of this version", path=path)
        return plan

    def record(self, key: str) -> FileRecord | None:
        """Return what became of a file, None where that is not known yet."""
        return self._read(self._records / key, FileRecord)

    def write_record(self, record: FileRecord) -> None:
        """Write what became of a file. Raises OSError."""
        self._write(self._records / record.key, record)

    def forget(self, key: str) -> None:
        """Remove the record and the attempts of a file, so that it is tried again."""
        with contextlib.suppress(OSError):
            (self._records / key).unlink()
        for place in self._attempts.glob(f"{key}.*"):
            with contextlib.suppress(OSError):
                place.unlink()

    def begin(self, key: str, at_most: int) -> int | None:
        """Count an attempt to read a file; None after ``at_most`` that did not end."""
        for number in range(1, at_most + 1):
            try:
                with self._attempt(key, number).open("x"):
                    return number
            except FileExistsError:
                continue
        return None

    def withdraw(self, key: str, number: int) -> None:
        """Take an attempt back that was ended on purpose."""
        with contextlib.suppress(OSError):
            self._attempt(key, number).unlink()

    def recorded_keys(self) -> set[str]:
        """Return the keys of all files with a record, by one listing."""
        try:
            return {one.name for one in self._records.iterdir() if not one.name.startswith(".")}
        except OSError:
            return set()

    def job(self) -> JobRecord | None:
        """Return the record of the whole job, None where there is none yet."""
        return self._read(self.directory / "job.json", JobRecord)

    def write_job(self, record: JobRecord) -> None:
        """Write the record of the whole job. Raises OSError."""
        self._write(self.directory / "job.json", record)

    def forget_job(self) -> None:
        """Remove the record of the job, which another one follows."""
        with contextlib.suppress(OSError):
            (self.directory / "job.json").unlink()

    def submission(self) -> Submission | None:
        """Return how tasks were submitted, None where they were not."""
        return self._read(self.directory / "submission.json", Submission)

    def write_submission(self, submission: Submission) -> None:
        """Write how tasks were submitted. Raises OSError."""
        self._write(self.directory / "submission.json", submission)

    def cancel(self) -> None:
        """Mark the run as cancelled: tasks that still run submit nothing more."""
        with contextlib.suppress(OSError):
            (self.directory / "cancelled").touch()

    def resume(self) -> None:
        """Remove the mark of a cancelled run."""
        with contextlib.suppress(OSError):
            (self.directory / "cancelled").unlink()

    @property
    def is_cancelled(self) -> bool:
        """Whether the run was cancelled."""
        return (self.directory / "cancelled").exists()

    def announce(self, engine: str) -> None:
        """Show that a command of this process waits for the run. Raises OSError."""
        text = f"{engine}, process {os.getpid()} on {socket.gethostname()}"
        self._write(self.directory / "waiting", text)

    def withdraw_announcement(self) -> None:
        """Remove the sign of the command that waited."""
        with contextlib.suppress(OSError):
            (self.directory / "waiting").unlink()

    def waiting_command(self) -> str | None:
        """Return which command waits for the run, None where none does any more."""
        path = self.directory / "waiting"
        try:
            age = time.time() - path.stat().st_mtime
        except OSError:
            return None
        return self._read(path, str) if age < self.SILENT_S else None

    @property
    def _records(self) -> Path:
        return self.directory / "files"

    @property
    def _attempts(self) -> Path:
        return self.directory / "attempts"

    def _attempt(self, key: str, number: int) -> Path:
        return self._attempts / f"{key}.{number}"

    def _read(self, path: Path, kind: type[_T]) -> _T | None:
        try:
            return msgspec.json.decode(checked(path.read_bytes()), type=kind)
        except (OSError, ValueError, RecursionError):
            return None

    def _write(self, path: Path, value: object) -> None:
        scratch = path.with_name(f".{uuid.uuid4().hex}")
        try:
            scratch.write_bytes(with_checksum(msgspec.json.encode(value)))
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)
