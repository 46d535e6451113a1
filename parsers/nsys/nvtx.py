"""NVTX ranges: what the program itself says it is doing, NCCL among it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from parsers.columns import MISSING
from parsers.nsys.database import Database
from parsers.nsys.rows import GroupRows, Ids, Shared, process_of, thread_tracks
from parsers.nsys.schema import DOMAIN_CREATED, NVTX, RANGES

_WANTED: Final = f"eventType IN ({', '.join(map(str, (*RANGES, DOMAIN_CREATED)))})"
_PROFILER_IDS: Final = (", op_id = ", ", seq = ")
NCCL: Final = "NCCL"


@dataclass(slots=True)
class Ranges:
    """Every closed range of a file. ``payloads`` are the distinct ones, as text or string id."""

    rows: GroupRows = field(default_factory=lambda: GroupRows("payload"))
    domains: dict[tuple[int, int], str | int] = field(default_factory=dict)
    payloads: Ids[str | int] = field(default_factory=Ids)


def read_ranges(database: Database, shared: Shared, progress: Callable[[int], None]) -> Ranges:
    """Read all ranges; ``progress`` gets the number of rows of each block."""
    ranges = Ranges()
    integers = ("start", "end", "eventType", "globalTid", "domainId", "textId", "jsonTextId")
    for numbers, texts in database.blocks(NVTX, integers, ("text", "jsonText"), where=_WANTED):
        start, end, event, thread, domain, text_id, json_id = numbers
        text, payload = texts
        process = process_of(thread)
        for row in np.flatnonzero(event == DOMAIN_CREATED).tolist():
            title = text[row]
            key = (int(process[row]), int(domain[row]))
            ranges.domains[key] = int(text_id[row]) if title is None else title
        pids, domains, ids = process.tolist(), domain.tolist(), text_id.tolist()
        keys = zip(pids, domains, text, ids, strict=True)
        name = shared.names.each((p, d, i) if t is None else (p, d, *cut(t)) for p, d, t, i in keys)
        found = zip(payload, json_id.tolist(), strict=True)
        content = [MISSING if t is None and i < 0 else ranges.payloads.of(t or i) for t, i in found]
        is_range = event != DOMAIN_CREATED
        ranges.rows.append(
            start[is_range],
            end[is_range],
            name=name[is_range],
            track=thread_tracks(thread, shared)[is_range],
            payload=np.array(content, np.int32)[is_range],
        )
        progress(len(start))
    return ranges


def cut(text: str) -> tuple[str, bool]:
    """A range's name without the ids that PyTorch's ``emit_nvtx`` adds, and whether it had any."""
    if ", " in text:
        ends = [at for mark in _PROFILER_IDS if (at := text.find(mark)) >= 0]
        if ends:
            return text[: min(ends)], True
    return text, False


@dataclass(frozen=True, slots=True)
class RangeName:
    """The full name of a range, "" as the domain where it is the default one."""

    domain: str
    text: str
    is_operator: bool

    @property
    def shown(self) -> str:
        """``domain:text``, the default domain bare, as nsys writes it."""
        return f"{self.domain}:{self.text}" if self.domain else self.text.removeprefix(":")


def range_name(key: tuple[Any, ...], ranges: Ranges, texts: dict[int, str]) -> RangeName:
    """What the name of a range's key is, once the strings of the file are known."""
    process, number, told = key[:3]
    name, has_ids = cut(texts.get(told, "")) if isinstance(told, int) else (told, key[3])
    known = ranges.domains.get((process, number), "")
    domain = texts.get(known, "") if isinstance(known, int) else known
    # What a profiler records of a backend is no operator: it only repeats one.
    return RangeName(domain, name, has_ids and not name.startswith(("nccl:", "gloo:")))


def payload_of(content: str | int, texts: dict[int, str]) -> dict[str, Any]:
    """A payload's members; {} for what is no JSON object."""
    text = texts.get(content, "") if isinstance(content, int) else content
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
