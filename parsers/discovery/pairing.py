"""Pair companion files, such as execution traces, with the trace of the same rank."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ccltui.parsers.format import Companion
from ccltui.parsers.found_files import Capture, FoundFile


def with_companions(captures: Sequence[Capture], files: Sequence[FoundFile]) -> tuple[Capture, ...]:
    """Return the captures, each trace with the companion file of its rank where there is one.

    That is the one in the same folder; else the only one of the rank, where there is one capture
    of the source. Whether both recorded the same operators is checked when they are read.
    """
    known = [
        file
        for file in files
        if file.format.completes is not None
        and file.rank is not None
        and file.problem is None
        and file.duplicate_of is None
    ]
    return tuple(_completed(capture, captures, known) for capture in captures)


def _completed(
    capture: Capture, captures: Sequence[Capture], known: Sequence[FoundFile]
) -> Capture:
    fitting = [file for file in known if file.format.completes == capture.source]
    if not fitting:
        return capture
    alone = sum(one.source == capture.source for one in captures) == 1
    paired = tuple(_paired(file, fitting, alone=alone) for file in capture.files)
    return msgspec.structs.replace(capture, files=paired)


def _paired(file: FoundFile, known: Sequence[FoundFile], *, alone: bool) -> FoundFile:
    of_rank = [one for one in known if one.rank == file.rank]
    here = [one for one in of_rank if _folder(one) == _folder(file)]
    chosen = here or (of_rank if alone else [])
    if len(chosen) != 1:
        return file
    companion = Companion(chosen[0].path, chosen[0].real_path, chosen[0].digest)
    return msgspec.structs.replace(file, companion=companion)


def _folder(file: FoundFile) -> str:
    return file.path.rpartition("/")[0]
