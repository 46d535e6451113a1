"""When to read a job on a cluster instead of here: by its size, and by what this machine allows."""

from __future__ import annotations

import math
import shlex
import shutil
from pathlib import Path
from typing import Final

import msgspec
from msgspec import structs

from ccltui.index.index_plan import PlannedFile
from ccltui.index.work_division import planned_files
from ccltui.parsers.columns import Note
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.job import Job
from ccltui.parsers.store.cache_place import default_cache_dir
from ccltui.parsers.store.column_store import Store
from ccltui.parsers.system.machine_limits import address_space, available_memory, workers_for

ADVICE_CODE: Final = "read_elsewhere"
_LONG_S: Final = 120.0
"""Reading that takes longer is worth the wait for a queue."""
_TEXT_BYTES_PER_S: Final = 200e6  # of one core, with writing the store
_SAMPLED: Final = 3


def with_advice(job: Job, path: str, store: Path | None, jobs: int | None = None) -> Job:
    """Return the job with a note where it should be read by ``ccltui index``.

    Args:
        job: As discovered; nothing is loaded.
        path: The directory as the user named it.
        store: Directory of the store, None for the user's.
        jobs: Worker processes that the user allows.
    """
    reason = _reason(job, store, jobs)
    if reason is None:
        return job
    engine = " --engine slurm" if shutil.which("sbatch") else ""
    options = "" if store is None else f" --store {shlex.quote(str(store))}"
    note = Note(ADVICE_CODE, f"{reason}: ccltui index {shlex.quote(path)}{options}{engine}")
    capture = msgspec.structs.replace(job.capture, notes=(*job.capture.notes, note))
    return structs.replace(job, capture=capture)


def _reason(job: Job, store: Path | None, jobs: int | None) -> str | None:
    """Return why the job is too large for this machine, None where it is not or is stored."""
    files = job.capture.files
    if not files:
        return None
    forms = [(one.size_bytes, one.format.memory_form or one.compression) for one in files]
    planned = [
        PlannedFile(f.path, b"", f.kind, n, form, "")
        for f, (n, form) in zip(files, forms, strict=True)
    ]
    largest = max(planned, key=lambda one: one.peak_bytes)
    allowed = min(available_memory(), address_space())
    seconds = sum(one.text_bytes for one in planned) / _TEXT_BYTES_PER_S
    seconds /= workers_for(forms, jobs)
    if largest.peak_bytes > allowed:
        reason = (
            f"reading {largest.path} needs about {largest.peak_bytes / 1e9:.1f} GB of memory, and "
            f"{allowed / 1e9:.1f} GB are allowed here"
        )
    elif seconds > _LONG_S:
        size = sum(one.size_bytes for one in planned) / 1e9
        minutes = math.ceil(seconds / 60)
        reason = f"reading {len(files):,} files ({size:,.1f} GB) takes about {minutes} min here"
    else:
        return None
    return None if _is_stored(job, store) else reason


def _is_stored(job: Job, store: Path | None) -> bool:
    """Whether the store has the first, the middle and the last file, and so probably all."""
    files = job.capture.files
    sample = {
        files[round(part * (len(files) - 1) / (_SAMPLED - 1))].path for part in range(_SAMPLED)
    }
    try:
        place = Store(default_cache_dir() if store is None else store)
    except GrammarError:
        return False
    planned, failed = planned_files([one for one in files if one.path in sample], place)
    return not failed and all(place.load_parts(one.key) is not None for one in planned)
