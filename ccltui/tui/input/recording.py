"""Keys of a session in a file: for reports of mistakes, and to press them again.

One JSON object a line: first what was opened and how large the screen was, then one for each key,
paste or click in order, with the milliseconds since the start. It holds what was typed, and no
number of the traces.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO, TypeVar

import msgspec

from ccltui.parsers.errors import GrammarError
from ccltui.report.printable_json import printable_json

T = TypeVar("T")
VERSION: Final = 1
_MOST_BYTES: Final = 64 << 20


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line."""

    recording: int
    opened: str
    width: int
    height: int


class Stroke(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key as Textual names it with the character it types, or pasted text, or a click."""

    at_ms: int
    key: str = ""
    character: str | None = None
    paste: str = ""
    mouse: str = ""
    x: int = 0
    y: int = 0
    button: int = 0
    shift: bool = False


@dataclass(frozen=True, slots=True)
class Recording:
    """A file that was read."""

    path: str
    header: Header
    strokes: tuple[Stroke, ...]


class Recorder:
    """Writes strokes as they come; a line that was written stays, whatever happens after."""

    def __init__(
        self, path: str, header: Header, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin a file, which must not be there yet. Raises OSError."""
        self._path = path
        self._clock = clock
        self._started = clock()
        self._encoder = msgspec.json.Encoder()
        file = Path(path).open("x", encoding="utf-8", buffering=1)  # noqa: SIM115  (kept open)
        self._file: TextIO | None = file
        self._error: OSError | None = None
        self._write(header)

    def now_ms(self) -> int:
        """Milliseconds since the start."""
        return int((self._clock() - self._started) * 1000)

    def add(self, stroke: Stroke) -> None:
        """Write a stroke; where that fails recording ends, and ``close`` tells."""
        self._write(stroke)

    def _write(self, what: msgspec.Struct) -> None:
        if self._file is None:
            return
        try:
            self._file.write(printable_json(self._encoder.encode(what).decode()) + "\n")
        except OSError as error:
            self._error = OSError(error.errno, error.strerror, self._path)
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def close(self) -> None:
        """Nothing more will come. Raises OSError where not everything could be written."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._error is not None:
            raise self._error


def read_recording(path: str) -> Recording:
    """A recording. Raises GrammarError with file and line, and OSError."""
    with Path(path).open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise GrammarError(f"{path}: larger than 64 MiB, so it is no recording of keys")
    lines = data.split(b"\n")
    header = _decoded(path, 1, lines[0], msgspec.json.Decoder(Header))
    if header.recording != VERSION:
        raise GrammarError(f"{path}: recording of version {header.recording}, not {VERSION}")
    return Recording(path, header, tuple(_strokes(path, lines[1:])))


def _strokes(path: str, lines: list[bytes]) -> Iterator[Stroke]:
    decoder = msgspec.json.Decoder(Stroke)
    for number, line in enumerate(lines, 2):
        if line.strip():
            yield _decoded(path, number, line, decoder)


def _decoded(path: str, number: int, line: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise GrammarError(f"{path}:{number}: not a line of a recording: {error}") from error
