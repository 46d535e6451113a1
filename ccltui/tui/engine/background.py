"""Threads beside the screen: one that loads, one that computes, one for each kind of query.

While ranks are loading, an analysis begins only after these have grown by a share: each takes time
in proportion to the ranks that are there, so that all of them together cost a fixed multiple of the
last one, however many ranks arrive and however fast.
"""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from textual.app import App
from textual.message import Message
from textual.worker import Worker, get_current_worker

from ccltui.parsers import numbers
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session

if TYPE_CHECKING:
    from ccltui.report.gates import Verdict
    from ccltui.tui.engine.analysis import Analyst
    from ccltui.tui.engine.client import RemoteAnalyst
    from ccltui.tui.engine.loader import Load
    from ccltui.tui.engine.messages import Fact
    from ccltui.tui.state.answers import Answered, Query


class FactPosted(Message, bubble=False):
    """A fact from a worker; newer progress replaces older progress that is still queued."""

    def __init__(self, fact: Fact, load: int = 0) -> None:
        """Make a message.

        Args:
            fact: What the worker posts.
            load: Number of the load that posts it, 0 where it is not about loading.
        """
        super().__init__()
        self.fact = fact
        self.load = load

    def can_replace(self, message: Message) -> bool:
        """Whether ``message``, still queued, may be dropped for this one."""
        from ccltui.tui.engine.messages import LoadProgress  # noqa: PLC0415  (after the first paint)

        return (
            isinstance(message, FactPosted)
            and isinstance(self.fact, LoadProgress)
            and isinstance(message.fact, LoadProgress)
        )


GROWTH: Final = 1.5
"""Factor by which the loaded ranks grow between two analyses: all before the last one together cost
at most 1 / (1 - 1 / 1.5) - 1 = 2 times the last one."""
PATIENCE: Final = 20.0
"""Durations of the last analysis after which the next one begins without that growth: where ranks
arrive slowly, each is shown, for at most a twentieth of the time."""


class Analysed(Struct, frozen=True):
    """The analysis before: its session, its duration, and the time since it ended (0: it runs)."""

    session: Session
    seconds: float
    ago_s: float
    running: bool


def is_due(session: Session, last: Analysed | None) -> bool:
    """Return whether an analysis of a session begins now, or waits for further ranks.

    It never waits when loading has ended, or when the user chose another part of the job.
    """
    if last is None or not session.busy or session.since != last.session.since:
        return True
    if last.running:  # a second one would cancel it
        return False
    grown = _extent(session) >= GROWTH * _extent(last.session)
    return grown or last.ago_s >= PATIENCE * last.seconds


def _extent(session: Session) -> int:
    """Number of ranks of which a part is there, and of those that are whole."""
    return 2 * session.ranks_loaded + session.ranks_partly


MakeAnalyst = Callable[[], "Analyst | RemoteAnalyst"]
LOADING = "load"
_SETTLE_S = 0.2
_SETTLE_FACTOR = 3
"""While ranks are loading, pause `_SETTLE_S` before the next analysis, and at least so many times
the duration of the last."""
_AT_ONCE_S = 0.001
IMPORTED_WHEN_IDLE: Final = (
    "ccltui.tui.panes.collective_drawer",
    "ccltui.tui.panes.event_drawer",
    "ccltui.tui.input.picker",
    "ccltui.tui.input.prompts",
    "ccltui.tui.help_page",
)
"""Modules without which the first keys that use them would wait."""
_TIDY_S = 2.0
"""Seconds from a key until memory that was mapped from a file is released."""


class Background:
    """Workers of an application. They post facts and change nothing else."""

    def __init__(
        self,
        app: App[Any],
        load: Load | None,
        make_analyst: MakeAnalyst | None,
        post: Callable[[Fact], object],
    ) -> None:
        self._app = app
        self._load = load  # None: read in a pool of its own
        self._make_analyst = make_analyst or _in_a_thread
        self._post = post
        self._loading: Worker[None] | None = None
        self.loads = 0
        """Number of loads begun; facts of an earlier load are stale."""
        self._analyst: Analyst | RemoteAnalyst | None = None
        self._making = threading.Lock()
        self._counting = threading.Lock()
        self._settling = False
        self._tidying = False
        self._last_s = 0.0
        self._last: Session | None = None  # of the newest complete analysis
        self._last_end = 0.0
        self._running = 0  # analyses that have begun and not ended

    @property
    def settling(self) -> bool:
        """Whether an analysis is about to begin."""
        return self._settling

    def start_loading(self, path: str, options: ExplorerOptions) -> None:
        """Open a path in a thread; a load that is still running ends."""
        self.stop_loading()
        self.loads += 1
        number = self.loads
        self._loading = self._app.run_worker(
            lambda: self._run_load(path, options, number),
            thread=True,
            group=LOADING,
            exit_on_error=False,
        )

    def _run_load(self, path: str, options: ExplorerOptions, number: int) -> None:
        # Imported after the first paint.
        from ccltui.parsers.ingest.worker_pool import prepare_for_processes  # noqa: PLC0415
        from ccltui.tui.engine.loader import load_or_follow  # noqa: PLC0415

        worker = get_current_worker()
        prepare_for_processes()

        def post(fact: Fact) -> None:
            self._app.post_message(FactPosted(fact, number))

        (self._load or load_or_follow)(path, options, post, lambda: worker.is_cancelled)

    def stop_loading(self) -> bool:
        """Cancel the loading thread; return whether one was running."""
        loading = self._loading
        if loading is None or loading.is_finished or loading.is_cancelled:
            return False
        loading.cancel()
        return True

    def analyse(self, session: Callable[[], Session]) -> None:
        """Compute findings for the session after a short delay, once for changes within it."""
        if not self._settling:
            self._settling = True
            loading = session().busy and self._analyst is not None
            delay = max(_SETTLE_S, _SETTLE_FACTOR * self._last_s) if loading else _AT_ONCE_S
            self._after(delay, lambda: self._start_analysis(session))

    def tidy(self, session: Callable[[], Session]) -> None:
        """Release memory that is not needed for the view, after a short delay."""
        if not self._tidying:
            self._tidying = True
            self._after(_TIDY_S, lambda: self._tidy(session()))

    def _tidy(self, session: Session) -> None:
        self._tidying = False
        if session.job is not None:
            from ccltui.tui.engine.packed_findings import release_memory  # noqa: PLC0415  (numpy)

            release_memory(session.job, heap=False)

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        """Act once in the application's thread, unless the application ends before.

        A timer of Textual skips what it could not send in time, and with that the only time of one:
        where another thread runs between its start and its first look at the clock, for longer than
        the delay, it never acts, and nothing would be computed any more.
        """

        def unless_ended() -> None:
            if self._app.is_running:
                act()

        asyncio.get_running_loop().call_later(seconds, unless_ended)

    def ask(self, scene: Scene, query: Query[Any]) -> None:
        """Answer a query about a scene in a thread; a newer query of its kind replaces an older."""
        self._app.run_worker(
            lambda: self._answer(scene, query),
            thread=True,
            exclusive=True,
            group=type(query).__name__,
            exit_on_error=False,
        )

    def _answer(self, scene: Scene, query: Query[Any]) -> None:
        # Imported after the first paint.
        from ccltui.tui.state.answers import FileQuery, ViewQuery  # noqa: PLC0415
        from ccltui.tui.state.wanted_queries import side_answer  # noqa: PLC0415

        worker, analyst = get_current_worker(), self._analyst
        found: Answered[Any] | None = None
        if isinstance(query, FileQuery):
            found = side_answer(scene, query, lambda: worker.is_cancelled)
        elif isinstance(query, ViewQuery) and analyst is not None:
            found = analyst.answer(scene, query)
        if found is not None and not worker.is_cancelled:
            self._post(found)

    def run_command(self, command: str, verdict: Verdict, path: str) -> None:
        """Start the command of an alert, and post why it failed if it did."""
        self._app.run_worker(
            lambda: self._run_command(command, verdict, path),
            thread=True,
            group="alert",
            exit_on_error=False,
        )

    def _run_command(self, command: str, verdict: Verdict, path: str) -> None:
        from ccltui.report.gates import run_command  # noqa: PLC0415
        from ccltui.tui.engine.messages import Problem  # noqa: PLC0415

        problem = run_command(command, verdict, path, output=subprocess.DEVNULL)
        if problem is not None:
            self._post(Problem(problem))

    def export(self, scene: Scene, path: str) -> None:
        """Write the listed rows to a file."""
        self._app.run_worker(
            lambda: self._export(scene, path), thread=True, group="export", exit_on_error=False
        )

    def _export(self, scene: Scene, path: str) -> None:
        from ccltui.tui.engine.messages import Exported  # noqa: PLC0415
        from ccltui.tui.export import write_rows  # noqa: PLC0415

        try:
            count = write_rows(scene, path)
        except OSError as error:
            self._post(Exported(problem=f"{path}: {error.strerror}"))
        else:
            self._post(Exported(f"{numbers.counted(count, 'row')} in {path}"))

    def _start_analysis(self, session: Callable[[], Session]) -> None:
        now = session()
        if not is_due(now, self._analysed()):
            self._after(_SETTLE_S, lambda: self._start_analysis(session))
            return
        self._settling = False
        self._app.run_worker(
            lambda: self._run_analysis(now, session),
            thread=True,
            exclusive=True,
            group="analysis",
            exit_on_error=False,
        )

    def _run_analysis(self, session: Session, newest: Callable[[], Session]) -> None:
        worker = get_current_worker()
        with self._making:  # two runs may begin before the one analyst is made
            self._analyst = analyst = self._analyst or self._make_analyst()
        started = time.perf_counter()
        with self._counting:
            self._running += 1
        try:
            finished = analyst.run(session, self._post, lambda: worker.is_cancelled)
        finally:
            with self._counting:
                self._running -= 1
            self._last_end = time.perf_counter()
            self._last_s = self._last_end - started
        if not finished:
            self._app.call_from_thread(self.analyse, newest)
            return
        self._last = session
        if not newest().busy:
            for name in IMPORTED_WHEN_IDLE:
                importlib.import_module(name)

    def _analysed(self) -> Analysed | None:
        """Return the newest complete analysis, None before the first."""
        if self._last is None:
            return None
        ago_s = time.perf_counter() - self._last_end
        return Analysed(self._last, self._last_s, ago_s, running=self._running > 0)


def _in_a_thread() -> Analyst:
    """Return an analyst that computes in this process."""
    from ccltui.tui.engine.analysis import Analyst  # noqa: PLC0415  (after the first paint)

    return Analyst()


def is_idle(app: App[Any]) -> bool:
    """Whether no worker of an application runs or waits, but for the one that loads.

    That one never ends while a directory is followed; its session says whether it is loading.
    """
    return all(worker.is_finished for worker in app.workers if worker.group != LOADING)
