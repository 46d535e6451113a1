"""Findings and answers from a process of its own, so that nothing computed holds up a key."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ccltui.tui.engine import server_messages
from ccltui.tui.engine.messages import FindingsReady, Trouble
from ccltui.tui.engine.server_process import Child, EndedError, Inbox, LostError
from ccltui.tui.engine.start_server import Started
from ccltui.tui.state.answers import Answered
from ccltui.tui.state.job_findings import Findings

if TYPE_CHECKING:
    from ccltui.tui.engine.analysis import Analyst
    from ccltui.tui.engine.messages import Fact
    from ccltui.tui.options import ExplorerOptions
    from ccltui.tui.state.answers import ViewQuery
    from ccltui.tui.state.scene import Scene
    from ccltui.tui.state.session import Session

_POLL_S: Final = 0.05
_TRIES: Final = 2
ENDED: Final = "the computing process has ended (out of memory?)"
AGAIN: Final = f"{ENDED}: it starts again"
LATER: Final = f"{ENDED}: it restarts when needed"
TWICE: Final = f"{ENDED}, twice: what is there stays"


class RemoteAnalyst:
    """As :class:`ccltui.tui.engine.analysis.Analyst`, which the other process has.

    What cannot be handed to it, as columns in no file, is computed here.
    """

    def __init__(self, options: ExplorerOptions, started: Started | None = None) -> None:
        """``started`` is a process that is there already."""
        self._options = options
        self._child: Child | None = None
        if started is not None:
            self._child = Child(started, Findings(), self._say_ended)
        self._talking = threading.Lock()  # orders that belong together
        self._session: Session | None = None
        self._here: Analyst | None = None
        self._is_here = False  # whether what was told last was computed here
        self._post: Callable[[Fact], object] = lambda _: None

    def close(self) -> None:
        """Let the process end."""
        if self._child is not None:
            self._child.close()

    def run(
        self, session: Session, post: Callable[[Fact], object], cancelled: Callable[[], bool]
    ) -> bool:
        """Run the analysis as `Analyst.run` does; start a process that has ended once more."""
        from ccltui.tui.engine import memory  # noqa: PLC0415  (imports numpy)

        if session.job is None or cancelled():
            return True
        self._post = post
        if any(trace.place is None for trace in session.job.ranks):
            return self._run_here(session, post, cancelled)
        for left in reversed(range(_TRIES)):
            try:
                told_all = self._run(session, post, cancelled)
                memory.give_back(session.job, heap=True)
                return told_all
            except LostError:
                return self._run_here(session, post, cancelled)
            except EndedError:
                post(Trouble(AGAIN if left else TWICE))
        if self._child is not None:  # nothing more will come for this session
            last = replace(self._child.findings, generation=session.generation, complete=True)
            post(FindingsReady(last))
        return True

    def _run(
        self, session: Session, post: Callable[[Fact], object], cancelled: Callable[[], bool]
    ) -> bool:
        with self._talking:
            child = self._awake()
        number = child.number()
        with child.hearing(number) as inbox:
            with self._talking:
                if session.job is None or cancelled():  # a newer run may be told of already
                    return True
                child.show(session.job)
                child.tell(server_messages.Analyse(number, replace(session, job=None)))
                self._session, self._is_here = session, False
            told_all = None
            while told_all is None:
                told_all = self._follow(_heard(inbox), child, post)
                if told_all is None and cancelled():
                    child.tell(server_messages.Stop(number))
                    return True
        return told_all

    def _follow(
        self, heard: list[server_messages.News | None], child: Child, post: Callable[[Fact], object]
    ) -> bool | None:
        """Pass on what is new; whether the run had told all, None while it goes on."""
        if any(isinstance(news, server_messages.Grown) for news in heard):
            post(FindingsReady(child.findings))  # what came at once is shown at once
        for news in heard:
            match news:
                case server_messages.Finished(told_all=told_all):
                    return told_all
                case server_messages.Lost():
                    raise LostError
                case None | server_messages.Broken(ends=True):
                    raise EndedError
                case server_messages.Broken(problem=problem):
                    post(Trouble(problem))
                    return True
        return None

    def answer(self, scene: Scene, query: ViewQuery[Any]) -> Answered[Any] | None:
        """What a pane asks about the scene; None when the scene is no longer the newest."""
        if self._is_here and self._here is not None:
            return self._here.answer(scene, query)
        try:
            with self._talking:
                child = self._awake(self._session)
            number = child.number()
            with child.hearing(number) as inbox:
                child.tell(server_messages.Ask(number, scene.findings.generation, query))
                while not isinstance(news := inbox.get(), server_messages.Reply):
                    if news is None or isinstance(news, server_messages.Lost):
                        raise EndedError
        except EndedError:
            self._say_ended()
            return Answered(query, problem=ENDED)
        return news.answered

    def _awake(self, session: Session | None = None) -> Child:
        """The process, started where there is none, and ready for questions about a session."""
        if self._child is None or not self._child.alive:
            findings = Findings() if self._child is None else self._child.findings
            self._child = Child(Started.now(self._options), findings, self._say_ended)
            if session is not None and session.job is not None:
                self._child.show(session.job)
                self._child.tell(server_messages.Look(replace(session, job=None)))
        return self._child

    def _say_ended(self, problem: str = "") -> None:
        self._post(Trouble(problem or LATER))

    def _run_here(
        self, session: Session, post: Callable[[Fact], object], cancelled: Callable[[], bool]
    ) -> bool:
        from ccltui.tui.engine.analysis import Analyst  # noqa: PLC0415  (imports all that computes)

        self._here, self._is_here = self._here or Analyst(self._options), True
        return self._here.run(session, post, cancelled)


def _heard(inbox: Inbox) -> list[server_messages.News | None]:
    """What has come, after a while at most; nothing where nothing has."""
    found: list[server_messages.News | None] = []
    with contextlib.suppress(queue.Empty):
        found.append(inbox.get(timeout=_POLL_S))
        while True:
            found.append(inbox.get_nowait())
    return found
