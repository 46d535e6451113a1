"""Read a list of kernels into columns."""

from pathlib import Path

import numpy as np

from ccltui.parsers.columns import CollectiveArgs, Events, RankTrace, SourceFile, Strings, Track
from ccltui.parsers.errors import TraceError


def read_kernel_list(path: Path, *, shown: str) -> RankTrace:
    """Return the columns of a file; ``shown`` is its path for messages.

    Raises:
        TraceError: A line is not a name, a start and an end.
    """
    first, *lines = path.read_text(encoding="utf-8").splitlines()
    rank = int(first.split()[-1])
    rows = [_row(line, number, shown) for number, line in enumerate(lines, 2)]
    names = list(dict.fromkeys(["kernel", *(name for name, _, _ in rows)]))
    start = np.array([begin for _, begin, _ in rows], np.int64) * 1000
    end = np.array([finish for _, _, finish in rows], np.int64) * 1000
    absent = np.full(len(rows), -1, np.int64)
    events = Events(
        start_ns=start,
        dur_ns=end - start,
        name=np.array([names.index(name) for name, _, _ in rows], np.int32),
        category=np.zeros(len(rows), np.int32),
        track=np.zeros(len(rows), np.int32),
        correlation=absent,
        external_id=absent,
        args=absent.astype(np.int32),
        bytes=absent,
    )
    stat = path.stat()
    return RankTrace(
        source=SourceFile(shown, str(path), stat.st_size, stat.st_mtime_ns, format="kernel_list"),
        rank=rank,
        rank_source="file name",
        strings=Strings.of(names),
        events={"gpu": events},
        collective_args=CollectiveArgs.empty(),
        tracks=(Track("stream", "0", "7", device=rank, stream=7),),
    )


def _row(line: str, number: int, shown: str) -> tuple[str, int, int]:
    try:
        name, begin, finish = line.split()
        return name, int(begin), int(finish)
    except ValueError:
        raise TraceError("no name, start and end", path=shown, line=number) from None
