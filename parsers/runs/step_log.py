"""``training_steps.jsonl``: one JSON object a step, as far as the run came."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ccltui.parsers.array_types import F64, I64
from ccltui.parsers.columns import Note
from ccltui.parsers.text.bounded_text import read_bounded
from ccltui.parsers.text.json_fields import finite


@dataclass(frozen=True)
class StepLog:
    """Training steps in the order they were made; NaN and -1 where a step does not say.

    ``step`` int64, ``loss`` and ``time_s`` float64, ``tokens`` int64 of all ranks,
    ``optimizer_step`` int8: 1 and 0, all of one length.
    """

    step: I64
    loss: F64
    time_s: F64
    tokens: I64
    optimizer_step: npt.NDArray[np.int8]
    notes: tuple[Note, ...] = ()

    def __len__(self) -> int:
        return len(self.step)


def read_step_log(path: Path, *, shown: str) -> StepLog:
    """The steps of a file; lines that cannot be used are noted, the first one by its number.

    Raises TraceError for a file that cannot be read.
    """
    text = read_bounded(path, shown=shown)
    reading = _Reading()
    for part in text.plain_parts:
        reading.take(part)
    return reading.log((*text.notes, *reading.notes(cut=not text.end.endswith("\n"))))


class _Reading:
    def __init__(self) -> None:
        self._rows: list[tuple[int, float, float, int, int]] = []
        self._lines = 0
        self._bad: list[tuple[int, str]] = []

    def take(self, part: str) -> None:
        decode = msgspec.json.decode
        for line in part.split("\n"):
            self._lines += 1
            if not line.strip():
                continue
            try:
                self._add(decode(line))
            except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
                self._bad.append((self._lines, str(error).split(":")[0][:80]))

    def _add(self, record: Any) -> None:
        if not isinstance(record, Mapping):
            self._bad.append((self._lines, "not an object"))
            return
        step = finite(record.get("step"))
        if step is None or not 0 <= step < 1 << 62:
            self._bad.append((self._lines, "without a step"))
            return
        if record.get("phase", "train") != "train":
            return
        tokens = finite(record.get("tokens"))
        boundary = record.get("optimizer_step")
        self._rows.append(
            (
                int(step),
                _float(record.get("loss")),
                _float(record.get("step_time_sec")),
                -1 if tokens is None or not 0 <= tokens < 1 << 62 else int(tokens),
                int(boundary) if isinstance(boundary, bool) else -1,
            )
        )

    def notes(self, *, cut: bool) -> list[Note]:
        """Return notes on unusable lines; a last line without its end is cut off, not wrong."""
        found = list(self._bad)
        notes = []
        if cut and found and found[-1][0] == self._lines:
            found.pop()
            notes.append(Note("cut_line", f"line {self._lines} is cut off and left out"))
        if found:
            line, why = found[0]
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            message = f"line {line}{more} cannot be used: {why}"
            notes.append(Note("bad_line", message, count=len(found)))
        return notes

    def log(self, notes: tuple[Note, ...]) -> StepLog:
        columns = list(zip(*self._rows, strict=True)) or [(), (), (), (), ()]
        return StepLog(
            np.array(columns[0], np.int64),
            np.array(columns[1], np.float64),
            np.array(columns[2], np.float64),
            np.array(columns[3], np.int64),
            np.array(columns[4], np.int8),
            notes,
        )


def _float(value: Any) -> float:
    number = finite(value)
    return math.nan if number is None else number
