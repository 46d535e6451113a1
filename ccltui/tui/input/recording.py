"""Record the keys of a session in a file, and replay such a file.

One JSON object a line: first the path that was opened and the size of the screen, then one for
each key, paste or mouse event in order, with the milliseconds since the start. The file contains
what was typed and no number of the traces; it serves to report a mistake and to reproduce it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Self, TextIO, TypeVar

import msgspec
from msgspec import Struct
from textual import events
from textual.app import App
from textual.timer import Timer

from ccltui.draw.text import clean
from ccltui.parsers import numbers
from ccltui.parsers.errors import GrammarError
from ccltui.report.printable_json import printable_json
from ccltui.tui.options import ExplorerOptions

T = TypeVar("T")
VERSION: Final = 1
_MAX_BYTES: Final = 64 << 20
_PERIOD_S: Final = 0.02
"""Seconds between two checks whether the next event can be replayed."""
_IDLE_CHECKS: Final = 2
"""Checks in a row at which nothing was running, before the next event is replayed."""
_MOUSE_EVENTS: Final[dict[str, type[events.MouseEvent]]] = {
    "down": events.MouseDown,
    "up": events.MouseUp,
    "move": events.MouseMove,
    "scroll_up": events.MouseScrollUp,
    "scroll_down": events.MouseScrollDown,
}
_MOUSE_NAMES: Final = {kind: name for name, kind in _MOUSE_EVENTS.items()}


_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
_Cell = Annotated[int, msgspec.Meta(ge=-65_536, le=65_536)]  # a drag may leave the screen
_Button = Annotated[int, msgspec.Meta(ge=0, le=255)]


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line of a recording."""

    recording: int
    opened: str
    width: _Cell
    height: _Cell


class Stroke(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key as Textual names it with the character it types, or pasted text, or a mouse event."""

    at_ms: _Count
    key: str = ""
    character: str | None = None
    paste: str = ""
    mouse: str = ""
    x: _Cell = 0
    y: _Cell = 0
    button: _Button = 0
    shift: bool = False


def event_of(stroke: Stroke) -> events.InputEvent | events.Paste:
    """Return the event that a driver would post for a stroke."""
    if stroke.paste:
        return events.Paste(stroke.paste)
    kind = _MOUSE_EVENTS.get(stroke.mouse)
    if kind is None:
        return events.Key(stroke.key, stroke.character)
    x, y = stroke.x, stroke.y
    return kind(None, x, y, 0, 0, stroke.button, stroke.shift, False, False, x, y)


def stroke_of(event: events.Event, at_ms: int) -> Stroke | None:
    """Return the stroke of an event; None for an event that is not recorded."""
    if isinstance(event, events.Key):
        return Stroke(at_ms=at_ms, key=event.key, character=event.character)
    if isinstance(event, events.Paste):
        return Stroke(at_ms=at_ms, paste=event.text)
    name = _MOUSE_NAMES.get(type(event)) if isinstance(event, events.MouseEvent) else None
    if name is None or not isinstance(event, events.MouseEvent):
        return None
    return Stroke(
        at_ms=at_ms,
        mouse=name,
        x=event.screen_x,
        y=event.screen_y,
        button=event.button,
        shift=event.shift,
    )


class Recorder:
    """Writes strokes line by line, so that a recording survives a crash."""

    def __init__(
        self, path: str, header: Header, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Create the file.

        Raises:
            OSError: The file exists already or cannot be created.
        """
        self._path = path
        self._clock = clock
        self._started = clock()
        self._encoder = msgspec.json.Encoder()
        file = Path(path).open("x", encoding="utf-8", buffering=1)  # noqa: SIM115  (closed by close)
        self._file: TextIO | None = file
        self._error: OSError | None = None
        self._write(header)

    def now_ms(self) -> int:
        """Return the milliseconds since the start."""
        return int((self._clock() - self._started) * 1000)

    def add(self, stroke: Stroke) -> None:
        """Write a stroke; an error ends recording, and `close` raises it."""
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
        """Close the file.

        Raises:
            OSError: Not every stroke could be written.
        """
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._error is not None:
            raise self._error


class Recording(Struct, frozen=True):
    """Contents of a recording."""

    path: str
    header: Header
    strokes: tuple[Stroke, ...]


def read_recording(path: str) -> Recording:
    """Read a recording.

    Raises:
        GrammarError: A line is no line of a recording; the message has file and line.
        OSError: The file cannot be read.
    """
    with Path(path).open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
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
    except RecursionError:
        raise GrammarError(
            f"{path}:{number}: not a line of a recording: nested too deeply"
        ) from None


class Replay:
    """Posts the events of a recording, each once everything before it is on the screen."""

    def __init__(self, recording: Recording, busy: Callable[[], bool]) -> None:
        self._strokes = list(reversed(recording.strokes))
        self._busy = busy
        self._idle_checks = 0
        self.count = len(recording.strokes)

    @property
    def done(self) -> bool:
        """Whether every event has been replayed."""
        return not self._strokes

    def step(self) -> events.InputEvent | events.Paste | None:
        """Return the next event, None while something is running; called periodically."""
        self._idle_checks = 0 if self._busy() else self._idle_checks + 1
        if self._idle_checks < _IDLE_CHECKS or not self._strokes:
            return None
        self._idle_checks = 0
        return event_of(self._strokes.pop())


class KeyLog:
    """The recorder and the replay of an application; either may be absent."""

    def __init__(self, recorder: Recorder | None, recording: Recording | None) -> None:
        self._recorder = recorder
        self._recording = recording
        self._timer: Timer | None = None
        self.is_replaying = False

    @classmethod
    def opened(cls, app: App[Any], options: ExplorerOptions, path: str) -> Self:
        """Create the file to record to and read the one to replay, as ``options`` ask.

        Args:
            app: The application, for the size of its screen.
            options: Options of the explorer.
            path: What the explorer opens.

        Raises:
            GrammarError: The file to replay is no recording.
            OSError: A file cannot be read, or the one to record to exists already.
        """
        recording = None if options.replay is None else read_recording(options.replay)
        if options.record is None:
            return cls(None, recording)
        width, height = app.size
        header = Header(recording=VERSION, opened=path, width=width, height=height)
        return cls(Recorder(options.record, header), recording)

    def start_replay(
        self, app: App[Any], busy: Callable[[], bool], report: Callable[[str], None]
    ) -> None:
        """Post recorded events whenever the application is idle; report when all are posted."""
        if self._recording is None:
            return
        replay = Replay(self._recording, busy)
        path = clean(self._recording.path)

        def step() -> None:
            event = replay.step()
            if event is not None:
                app.post_message(event)
            elif replay.done and self._timer is not None:
                self._timer.stop()
                self.is_replaying = False
                report(f"replayed {numbers.counted(replay.count, 'key')} of {path}")

        self._timer = app.set_interval(_PERIOD_S, step)
        self.is_replaying = True

    def record(self, event: events.Event) -> None:
        """Record an event, if a recording is made."""
        if self._recorder is None:
            return
        stroke = stroke_of(event, self._recorder.now_ms())
        if stroke is not None:
            self._recorder.add(stroke)

    def close(self) -> None:
        """End the recording.

        Raises:
            OSError: Not every stroke could be written.
        """
        if self._recorder is not None:
            self._recorder.close()
