"""Results of metrics of a whole job, kept beside the state of its index.

The step after all ranks are read computes them once, where there is memory and time for it. A
command that asks for the whole job prints them without reading an event. They are those of the
same files, of the same selection and of the same program, or they are not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import structs

from ccltui.index import STATE_FOLDER
from ccltui.index.index_state import IndexState
from ccltui.metrics.result import Result
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import TraceError
from ccltui.parsers.ingest.load import entry_key
from ccltui.parsers.store.column_store import Store
from ccltui.parsers.store.store_entry import (
    checked,
    is_shared,
    read_plain,
    with_checksum,
    write_beside,
)

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.found_files import FoundFile
    from ccltui.parsers.job import Job

FOLDER: Final = "results"
_CODE_SUFFIXES: Final = (".py", ".so", ".pyd")


class SavedResults:
    """Results of one job in its store."""

    def __init__(self, store: Path, folder: Path) -> None:
        self._store = store
        self._folder = folder

    @classmethod
    def of(cls, view: View, store: Path) -> SavedResults | None:
        """Return the results of a view, None of a part of a job, or of one with unread files.

        There may be none yet. A card, logs and other files beside the traces count by size and
        time of their last change.
        """
        job = view.job
        if view.options != ViewOptions(profile_mode=job.profile_mode):
            return None
        if job.failures or job.unread_ranks or not job.ranks:
            return None
        if not job.read_paths.issuperset(found.path for found in job.capture.files):
            return None
        try:
            name = _name_of(job, Store(store))
        except (OSError, TraceError):
            return None
        state = IndexState.of(store, job.path, job.capture.name)
        return cls(store, state.directory / FOLDER / name)

    @classmethod
    def loaded(cls, view: View) -> dict[str, Result]:
        """Return all results of a view whose columns are mapped from a store, by metric."""
        place = view.job.ranks[0].place if view.job.ranks else None
        if place is None or place.kept is not None:
            return {}
        store = place.path.parent.parent
        if not (store / STATE_FOLDER).is_dir():
            return {}
        saved = cls.of(view, store)
        return {} if saved is None else saved.load_all()

    def load_all(self) -> dict[str, Result]:
        """Return every result that can be used, by metric."""
        try:
            names = sorted(os.listdir(self._folder))  # noqa: PTH208  (names alone)
        except OSError:
            return {}
        found = ((name, self.load(name)) for name in names)
        return {name: result for name, result in found if result is not None}

    def load(self, metric: str) -> Result | None:
        """Return the result of a metric, None where there is none that can be used."""
        try:
            text, status = read_plain(self._folder / metric)
            if status.st_uid not in (0, os.geteuid()) and not is_shared(self._store):
                return None
            result = msgspec.json.decode(checked(text), type=Result)
        except (OSError, ValueError, RecursionError):
            return None
        return structs.replace(
            result, reasons=tuple(result.reasons), warnings=tuple(result.warnings)
        )

    def write(self, result: Result) -> bool:
        """Keep a result; return False for one that JSON does not keep exactly. Raises OSError."""
        if result.reason == "internal_error":
            return False
        try:
            text = msgspec.json.encode(result, enc_hook=_number)
            known = msgspec.to_builtins(result, enc_hook=_number)
            if msgspec.json.decode(text) != _with_lists(known):
                return False
        except (TypeError, ValueError):
            return False
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        write_beside(self._store, self._folder / result.metric, with_checksum(text))
        return True

    def remove_others(self) -> None:
        """Remove results of other states of the files, and of other versions of the program."""
        with contextlib.suppress(OSError):
            for folder in list(self._folder.parent.iterdir()):
                if folder != self._folder:
                    shutil.rmtree(folder, ignore_errors=True)


def _number(value: object) -> object:
    """Return a number of numpy as one of Python, for the encoder. Raises TypeError for others."""
    import numpy as np  # noqa: PLC0415  (as in _name_of)

    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(type(value).__name__)


def _with_lists(value: Any) -> Any:
    """Return a value with lists in place of tuples, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _with_lists(one) for key, one in value.items()}
    return [_with_lists(one) for one in value] if isinstance(value, list | tuple) else value


def _name_of(job: Job, store: Store) -> str:
    """Name of all that results of a whole job follow from. Raises OSError and TraceError."""
    import numpy as np  # noqa: PLC0415  (its sums differ between versions)

    digest = hashlib.blake2b(digest_size=16)
    traces = {found.path for found in job.capture.files}
    digest.update(repr((code_digest(), np.__version__, job.profile_mode)).encode())
    digest.update(msgspec.json.encode([job.capture.name, job.capture.complete, job.card_problem]))
    for found in job.capture.files:
        digest.update(entry_key(store, found).encode())
    for trace in job.ranks:
        named = (trace.label, trace.rank, trace.rank_source, trace.source.path, trace.source.part)
        digest.update(repr(named).encode())
    for found in job.discovery.files:
        seen = None if found.path in traces else _seen(found)
        digest.update(repr((*_stated(found), seen)).encode())
    return digest.hexdigest()


def _stated(found: FoundFile) -> tuple[Any, ...]:
    """What discovery found out about a file, without where it lies."""
    facts = {name: getattr(found, name) for name in found.__struct_fields__}
    companion = found.companion
    facts["companion"] = None if companion is None else companion.path
    del facts["real_path"]
    return tuple(facts.values())


def _seen(found: FoundFile) -> tuple[int, int]:
    status = os.stat(found.real_path)  # noqa: PTH116  (paths need not be text)
    return status.st_size, status.st_mtime_ns


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Digest of size and time of every source of the readers and the metrics."""
    from ccltui import metrics, parsers  # noqa: PLC0415

    digest = hashlib.blake2b(digest_size=16)
    for package in (parsers, metrics):
        for root in package.__path__:
            for line in sorted(_sources(os.path.realpath(root), "")):
                digest.update(line.encode())
    return digest.hexdigest()


def _sources(directory: str, below: str) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            name = f"{below}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield from _sources(entry.path, name)
            elif entry.name.endswith(_CODE_SUFFIXES):
                status = entry.stat()
                yield repr((name, status.st_size, status.st_mtime_ns))
