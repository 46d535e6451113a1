"""Which execution trace belongs to which Kineto trace of a directory."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ccltui.parsers.found_files import Beside, Capture, FoundFile


def with_execution_traces(
    captures: Sequence[Capture], files: Sequence[FoundFile]
) -> tuple[Capture, ...]:
    """The captures, each Kineto trace with the execution trace of its rank, where that is one.

    The one in the same folder; else the only one of the rank, where there is one capture. That
    its operators are the same is for the reader to see.
    """
    known = [
        file
        for file in files
        if file.kind == "execution_trace"
        and file.rank is not None
        and file.problem is None
        and file.duplicate_of is None
    ]
    alone = sum(capture.source == "torch" for capture in captures) == 1
    return tuple(
        msgspec.structs.replace(
            capture, files=tuple(_paired(file, known, alone=alone) for file in capture.files)
        )
        if capture.source == "torch" and known
        else capture
        for capture in captures
    )


def _paired(file: FoundFile, known: Sequence[FoundFile], *, alone: bool) -> FoundFile:
    of_rank = [one for one in known if one.rank == file.rank]
    here = [one for one in of_rank if _folder(one) == _folder(file)]
    chosen = here or (of_rank if alone else [])
    if len(chosen) != 1:
        return file
    beside = Beside(chosen[0].path, chosen[0].real_path)
    return msgspec.structs.replace(file, beside=beside)


def _folder(file: FoundFile) -> str:
    return file.path.rpartition("/")[0]
