"""Records what the user does, and does what was recorded; see :mod:`ccltui.tui.input.recording`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from textual import events
from textual.app import App
from textual.timer import Timer

from ccltui.draw.text import clean
from ccltui.tui.options import ExplorerOptions

if TYPE_CHECKING:
    from ccltui.tui.input.recording import Recorder, Recording


class Tape:
    """What is recorded to, and what is replayed from; either may be absent.

    Raises GrammarError and OSError for a file that cannot be read, or is there already.
    """

    def __init__(self, app: App[Any], options: ExplorerOptions, opened: str) -> None:
        self._app = app
        self._to = options.record
        self._opened = opened
        self._recorder: Recorder | None = None
        self._recording: Recording | None = None
        self._timer: Timer | None = None
        if self._to is not None or options.replay is not None:
            self._thread_in(options.replay)

    def _thread_in(self, replay: str | None) -> None:
        """Open what is recorded to, and read what is replayed."""
        from ccltui.tui.input.recording import Header, Recorder, read_recording  # noqa: PLC0415  (rare)

        self._recording = None if replay is None else read_recording(replay)
        if self._to is not None:
            width, height = self._app.size
            header = Header(recording=1, opened=self._opened, width=width, height=height)
            self._recorder = Recorder(self._to, header)

    def begin(self, busy: Callable[[], bool], tell: Callable[[str], None]) -> None:
        """Start to press recorded keys whenever nothing else goes on; ``tell`` says when done."""
        if self._recording is None:
            return
        from ccltui.tui.input.key_replay import PERIOD_S, Replay  # noqa: PLC0415

        replay = Replay(self._recording, busy)
        path = clean(self._recording.path)

        def step() -> None:
            event = replay.step()
            if event is not None:
                self._app.post_message(event)
            elif replay.done and self._timer is not None:
                self._timer.stop()
                tell(f"replayed {replay.count:,} keys of {path}")

        self._timer = self._app.set_interval(PERIOD_S, step)

    def took(self, event: events.Event) -> None:
        """Record an event."""
        if self._recorder is None:
            return
        from ccltui.tui.input.key_replay import stroke_of  # noqa: PLC0415

        stroke = stroke_of(event, self._recorder.now_ms())
        if stroke is not None:
            self._recorder.add(stroke)

    def close(self) -> None:
        """Nothing more is recorded. Raises OSError where not everything could be written."""
        if self._recorder is not None:
            self._recorder.close()


def is_idle(app: App[Any]) -> bool:
    """Whether no worker of an application runs or waits."""
    return all(worker.is_finished for worker in app.workers)
