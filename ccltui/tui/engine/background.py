"""What runs beside the screen: one thread that loads, one that computes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.worker import Worker, get_current_worker

from ccltui.tui.engine.app_messages import Report
from ccltui.tui.engine.loader import Load
from ccltui.tui.engine.messages import Exported, Fact
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session
from ccltui.tui.terminal import compat

if TYPE_CHECKING:
    from ccltui.tui.engine.analysis import Analyst
    from ccltui.tui.engine.client import RemoteAnalyst
    from ccltui.tui.state.answers import Answered, Query

MakeAnalyst = Callable[[ExplorerOptions], "Analyst | RemoteAnalyst"]
LOADING = "load"
_SETTLE_S = 0.2
_REST = 3
"""While ranks pour in: pause at least so long, and so many times as long as it took."""
_AT_ONCE_S = 0.001
_TIDY_S = 2.0
"""So long after a key what was looked at is given back, as far as a file holds it."""


class Background:
    """Workers of an application; they post facts and touch nothing else."""

    def __init__(
        self,
        app: App[Any],
        options: ExplorerOptions,
        load: Load,
        make_analyst: MakeAnalyst | None,
        post: Callable[[Fact], object],
    ) -> None:
        self._app = app
        self._options = options
        self._load = load
        self._make_analyst = make_analyst or _in_a_thread
        self._post = post
        self._loading: Worker[None] | None = None
        self.loads = 0
        """How often loading began: what an earlier load tells is stale."""
        self._analyst: Analyst | RemoteAnalyst | None = None
        self._making = threading.Lock()
        self._settling = False
        self._tidying = False
        self._last_s = 0.0

    @property
    def settling(self) -> bool:
        """Whether an analysis is about to begin."""
        return self._settling

    def start_loading(self, path: str, options: ExplorerOptions) -> None:
        """Open a path in a thread; a load that still goes on ends."""
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
        worker = get_current_worker()
        compat.prepare_for_processes()

        def post(fact: Fact) -> None:
            self._app.post_message(Report(fact, number))

        self._load(path, options, post, lambda: worker.is_cancelled)

    def stop_loading(self) -> bool:
        """Ask the loading thread to end; whether there was anything to stop."""
        loading = self._loading
        if loading is None or loading.is_finished or loading.is_cancelled:
            return False
        loading.cancel()
        return True

    def analyse(self, session: Callable[[], Session]) -> None:
        """Compute for the session as it will be in a moment: what comes at once counts once."""
        if not self._settling:
            self._settling = True
            pouring = session().busy and self._analyst is not None
            delay = max(_SETTLE_S, _REST * self._last_s) if pouring else _AT_ONCE_S
            self._app.set_timer(delay, lambda: self._start_analysis(session))

    def tidy(self, session: Callable[[], Session]) -> None:
        """Keep no more in memory than what is in view, in a moment."""
        if not self._tidying:
            self._tidying = True
            self._app.set_timer(_TIDY_S, lambda: self._tidy(session()))

    def _tidy(self, session: Session) -> None:
        self._tidying = False
        if session.job is not None:
            from ccltui.tui.engine import memory  # noqa: PLC0415  (imports numpy)

            memory.give_back(session.job, heap=False)

    def ask(self, scene: Scene, query: Query[Any]) -> None:
        """Find out something about a scene; a newer question of its kind replaces an older."""
        self._app.run_worker(
            lambda: self._answer(scene, query),
            thread=True,
            exclusive=True,
            group=type(query).__name__,
            exit_on_error=False,
        )

    def _answer(self, scene: Scene, query: Query[Any]) -> None:
        from ccltui.tui.state.answers import FileQuery, ViewQuery  # noqa: PLC0415  (the screen paints before)
        from ccltui.tui.state.queries import side_answer  # noqa: PLC0415

        worker, analyst = get_current_worker(), self._analyst
        found: Answered[Any] | None = None
        if isinstance(query, FileQuery):
            found = side_answer(scene, query, lambda: worker.is_cancelled)
        elif isinstance(query, ViewQuery) and analyst is not None:
            found = analyst.answer(scene, query)
        if found is not None and not worker.is_cancelled:
            self._post(found)

    def export(self, scene: Scene, path: str) -> None:
        """Write what is in view to a file."""
        self._app.run_worker(
            lambda: self._export(scene, path), thread=True, group="export", exit_on_error=False
        )

    def _export(self, scene: Scene, path: str) -> None:
        from ccltui.tui.actions.export import write_rows  # noqa: PLC0415

        try:
            count = write_rows(scene, path)
        except OSError as error:
            self._post(Exported(problem=f"{path}: {error.strerror}"))
        else:
            self._post(Exported(f"{count:,} rows in {path}"))

    def _start_analysis(self, session: Callable[[], Session]) -> None:
        self._settling = False
        now = session()
        self._app.run_worker(
            lambda: self._run_analysis(now, session),
            thread=True,
            exclusive=True,
            group="analysis",
            exit_on_error=False,
        )

    def _run_analysis(self, session: Session, newest: Callable[[], Session]) -> None:
        worker = get_current_worker()
        with self._making:  # two runs may begin before there is one, and there must be one only
            self._analyst = analyst = self._analyst or self._make_analyst(self._options)
        started = time.perf_counter()
        finished = analyst.run(session, self._post, lambda: worker.is_cancelled)
        self._last_s = time.perf_counter() - started
        if not finished:
            self._app.call_from_thread(self.analyse, newest)


def _in_a_thread(options: ExplorerOptions) -> Analyst:
    """Compute in this process."""
    from ccltui.tui.engine.analysis import Analyst  # noqa: PLC0415  (the screen paints before)

    return Analyst(options)
