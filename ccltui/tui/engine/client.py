"""Findings and answers computed in a server process, so that computing delays no key."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ccltui.tui.engine import server_messages
from ccltui.tui.engine.messages import FindingsReady, Problem
from ccltui.tui.engine.server_process import (
    Inbox,
    RankUnavailableError,
    ServerEndedError,
    ServerProcess,
)
from ccltui.tui.engine.start_server import StartedServer, start_server
from ccltui.tui.state.answers import Answered
from ccltui.tui.state.job_findings import Findings

if TYPE_CHECKING:
    from ccltui.metrics.registry import Functions
    from ccltui.tui.engine.analysis import Analyst
    from ccltui.tui.engine.messages import Fact
    from ccltui.tui.state.answers import ViewQuery
    from ccltui.tui.state.scene import Scene
    from ccltui.tui.state.session import Session

_POLL_S: Final = 0.05
_TRIES: Final = 2
ENDED: Final = "the computing process has ended (out of memory?)"
AGAIN: Final = f"{ENDED}: it starts again"
LATER: Final = f"{ENDED}: it restarts when needed"
TWICE: Final = f"{ENDED}, twice: the numbers in view remain"


class RemoteAnalyst:
    """Interface of :class:`ccltui.tui.engine.analysis.Analyst` to the one in the server process.

    A job that cannot be sent there, because columns are in no file, is computed in this process.
    """

    def __init__(
        self, started: StartedServer | None = None, functions: Functions | None = None
    ) -> None:
        """Use the server process ``started``; without one the first run starts it.

        ``functions`` are those of the process that replaces one that has ended.
        """
        self._functions = functions
        self._server: ServerProcess | None = None
        self._sending = threading.Lock()  # keeps requests that belong together in one sequence
        self._session: Session | None = None
        self._local: Analyst | None = None
        self._is_local = False  # whether the newest findings were computed in this process
        self._post: Callable[[Fact], object] = lambda _: None
        if started is not None:  # last: its thread may report at once that the process has ended
            self._server = ServerProcess(started, Findings(), self._post_ended)

    def close(self) -> None:
        """End the server process."""
        if self._server is not None:
            self._server.close()

    def run(
        self, session: Session, post: Callable[[Fact], object], cancelled: Callable[[], bool]
    ) -> bool:
        """Run the analysis as `Analyst.run` does; restart a server process that ends, once."""
        from ccltui.tui.engine import memory  # noqa: PLC0415  (imports numpy)

        if session.job is None or cancelled():
            return True
        self._post = post
        if any(trace.place is None for trace in session.job.ranks):
            return self._run_locally(session, post, cancelled)
        for left in reversed(range(_TRIES)):
            try:
                complete = self._run(session, post, cancelled)
                memory.release_memory(session.job, heap=True)
                return complete
            except RankUnavailableError:
                return self._run_locally(session, post, cancelled)
            except ServerEndedError:
                post(Problem(AGAIN if left else TWICE))
        if self._server is not None:  # no more findings will come for this session
            last = replace(self._server.findings, generation=session.generation, complete=True)
            post(FindingsReady(last))
        return True

    def _run(
        self, session: Session, post: Callable[[Fact], object], cancelled: Callable[[], bool]
    ) -> bool:
        with self._sending:
            server = self._live_server()
        number = server.number()
        with server.replies_to(number) as inbox:
            with self._sending:
                if session.job is None or cancelled():  # a newer run may have been sent already
                    return True
                server.send_job(session.job)
                server.send(server_messages.StartRun(number, replace(session, job=None)))
                self._session, self._is_local = session, False
            complete = None
            while complete is None:
                complete = self._process(_received(inbox), server, post)
                if complete is None and cancelled():
                    server.send(server_messages.CancelRun(number))
                    return True
        return complete

    def _process(
        self,
        replies: list[server_messages.Reply | None],
        server: ServerProcess,
        post: Callable[[Fact], object],
    ) -> bool | None:
        """Post new findings; return what `Analyst.run` returned, None while the run goes on."""
        if any(isinstance(reply, server_messages.FindingsChanged) for reply in replies):
            post(FindingsReady(server.findings))  # changes received together are posted once
        for reply in replies:
            match reply:
                case server_messages.RunFinished(complete=complete):
                    if None in replies:  # ended right behind it, with nobody else to report that
                        self._post_ended()
                    return complete
                case server_messages.RankUnavailable():
                    raise RankUnavailableError
                case None | server_messages.RunFailed(process_ends=True):
                    raise ServerEndedError
                case server_messages.RunFailed(problem=problem):
                    post(Problem(problem))
                    return True
        return None

    def answer(self, scene: Scene, query: ViewQuery[Any]) -> Answered[Any] | None:
        """Answer a pane's query about the scene; None when the scene is no longer the newest."""
        if self._is_local and self._local is not None:
            return self._local.answer(scene, query)
        try:
            with self._sending:
                server = self._live_server(self._session)
            number = server.number()
            with server.replies_to(number) as inbox:
                server.send(server_messages.AskQuery(number, scene.findings.generation, query))
                while not isinstance(reply := inbox.get(), server_messages.QueryAnswered):
                    if reply is None or isinstance(reply, server_messages.RankUnavailable):
                        raise ServerEndedError
        except ServerEndedError:
            self._post_ended()
            return Answered(query, problem=ENDED)
        return reply.answered

    def _live_server(self, session: Session | None = None) -> ServerProcess:
        """Return the server process; start one, prepared for queries about ``session``, if none."""
        if self._server is None or not self._server.alive:
            findings = Findings() if self._server is None else self._server.findings
            self._server = ServerProcess(start_server(self._functions), findings, self._post_ended)
            if session is not None and session.job is not None:
                self._server.send_job(session.job)
                self._server.send(server_messages.PrepareQueries(replace(session, job=None)))
        return self._server

    def _post_ended(self, problem: str = "") -> None:
        self._post(Problem(problem or LATER))

    def _run_locally(
        self, session: Session, post: Callable[[Fact], object], cancelled: Callable[[], bool]
    ) -> bool:
        from ccltui.tui.engine.analysis import Analyst  # noqa: PLC0415  (imports all metrics)

        self._local, self._is_local = self._local or Analyst(), True
        return self._local.run(session, post, cancelled)


def _received(inbox: Inbox) -> list[server_messages.Reply | None]:
    """Return the replies that are there, after at most ``_POLL_S``; an empty list without any."""
    found: list[server_messages.Reply | None] = []
    with contextlib.suppress(queue.Empty):
        found.append(inbox.get(timeout=_POLL_S))
        while True:
            found.append(inbox.get_nowait())
    return found
