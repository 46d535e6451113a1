"""Write small trace directories, and read what discovery says about them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from ccltui.parsers.discovery.discover import Discovery, FoundFile

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}


def trace_text(
    rank: int | None = None, world_size: int | None = None, *, last: bool = False, ts: int = 1
) -> bytes:
    """A Kineto trace of one event; ``last`` puts distributedInfo behind the events."""
    info = {"backend": "nccl", "rank": rank, "world_size": world_size}
    stated = {key: value for key, value in info.items() if value is not None}
    distributed = {} if rank is None and world_size is None else {"distributedInfo": stated}
    events = {"traceEvents": [{**EVENT, "ts": ts}]}
    header = {"schemaVersion": 1, "deviceProperties": []}
    body = {**header, **events, **distributed} if last else {**header, **distributed, **events}
    return json.dumps(body).encode()


def put(root: Path, path: str, content: bytes | str) -> Path:
    """Write ``content`` below ``root``; a name ending in .gz gets it compressed."""
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    target.write_bytes(gzip.compress(data, mtime=0) if path.endswith(".gz") else data)
    return target


def by_path(discovery: Discovery) -> dict[str, FoundFile]:
    """Found files by their shown path."""
    return {file.path: file for file in discovery.files}


def codes(discovery: Discovery) -> list[str]:
    """Codes of the directory's notes, then of each capture's."""
    captures = [note.code for capture in discovery.captures for note in capture.notes]
    return [note.code for note in discovery.notes] + captures
