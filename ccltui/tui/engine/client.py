"""The explorer's side of the server process: send requests, sort findings and answers."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import queue
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NoReturn

from msgspec.structs import replace

from ccltui.tui.engine import messages
from ccltui.tui.engine.array_transfer import Channel, unpack
from ccltui.tui.engine.messages import FindingsReady, Problem
from ccltui.tui.engine.server import StartedServer, start_server
from ccltui.tui.state.answers import Answered, Findings

if TYPE_CHECKING:
    from ccltui.metrics.registry import Functions
    from ccltui.parsers.columns import RankTrace
    from ccltui.parsers.job import Job
    from ccltui.tui.engine.analysis import Analyst
    from ccltui.tui.engine.messages import Fact
    from ccltui.tui.state.answers import ViewQuery
    from ccltui.tui.state.scene import Scene
    from ccltui.tui.state.session import Session


Inbox = queue.SimpleQueue["messages.Reply | None"]
"""Replies to one run or one query; None once the process has ended."""


class ServerEndedError(Exception):
    """Exception raised when the server process has ended."""


class RankUnavailableError(Exception):
    """Exception raised when the server process cannot map a rank that this process has mapped.

    Raised also for a rank whose columns are in no file.
    """


def _holds_end(inbox: Inbox) -> bool:
    """Whether the end of the process is among the replies that nobody took."""
    with contextlib.suppress(queue.Empty):
        while True:
            if inbox.get_nowait() is None:
                return True
    return False


class ServerProcess:
    """One server process.

    ``findings`` are those it began with and all changes received since.
    """

    def __init__(
        self, started: StartedServer, findings: Findings, ended: Callable[[str], object]
    ) -> None:
        """Receive replies in a thread.

        Args:
            started: The process and the connection to it.
            findings: Findings received from an earlier process.
            ended: Called by the receiving thread with the reason, as far as that is known, when
                the process ends while no run or query waits for it, or ends by a defect.
        """
        self.findings = findings
        self._ended = ended
        self._numbers = itertools.count(1)
        self._ranks: dict[int, tuple[int, RankTrace]] = {}  # by identity
        self._job: Job | None = None
        self._lock = threading.Lock()  # of _inboxes and _alive
        self._inboxes: dict[int, Inbox] = {}
        self._alive = True
        self._process = started.process
        self._channel = Channel(started.connection)
        threading.Thread(target=self._receive, daemon=True).start()

    @property
    def alive(self) -> bool:
        """Whether it has not ended, as far as is known."""
        return self._alive

    def number(self) -> int:
        """Return a number that no run, query or rank had before."""
        return next(self._numbers)

    def send_job(self, job: Job) -> None:
        """Send the job and those of its ranks that were not sent before.

        Raises:
            ServerEndedError: The process has ended.
            RankUnavailableError: The columns of a rank are in no file.
        """
        if job is self._job:
            return
        sent = {id(one): self._ranks.get(id(one)) or self._send_rank(one) for one in job.ranks}
        self._ranks, self._job = sent, job
        numbers = tuple(number for number, _ in sent.values())
        self.send(messages.SetJob(job.without_ranks(), numbers))

    def _send_rank(self, trace: RankTrace) -> tuple[int, RankTrace]:
        # Imported after the first paint.
        from ccltui.parsers.ingest.load import detach_columns  # noqa: PLC0415

        handed, number = detach_columns(trace), self.number()
        if handed is None or trace.place is None:
            raise RankUnavailableError
        kept = trace.place.kept
        descriptor = None if kept is None else kept.descriptor
        self.send(messages.AddRank(number, handed), descriptor)
        return number, trace

    def send(self, request: messages.Request, descriptor: int | None = None) -> None:
        """Send a request, and an open file beside it where a descriptor is given.

        Raises:
            ServerEndedError: The process has ended.
        """
        try:
            self._channel.send(pickle.dumps(request), descriptor)
        except OSError:
            raise ServerEndedError from None

    @contextlib.contextmanager
    def replies_to(self, number: int) -> Iterator[Inbox]:
        """Collect the replies to the run or query of this number.

        An end of the process that is not taken out of the inbox is reported behind it.
        """
        inbox: Inbox = queue.SimpleQueue()
        with self._lock:
            self._inboxes[number] = inbox
            if not self._alive:
                inbox.put(None)
        try:
            yield inbox
        finally:
            with self._lock:
                del self._inboxes[number]
        if _holds_end(inbox):
            self._ended("")

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._alive = False
        self._channel.shut_down()

    def _receive(self) -> None:
        problem = ""
        try:
            self._receive_all()
        except EOFError:
            pass
        except Exception as error:  # a reply that cannot be read: a new process is better
            problem = f"internal error: {type(error).__name__}: {error}"
        with self._lock:
            unexpected, self._alive = self._alive, False
            inboxes = list(self._inboxes.values())
        for inbox in inboxes:
            inbox.put(None)
        if unexpected and (problem or not inboxes):
            self._ended(problem)
        self._channel.close()
        self._process.join(1.0)

    def _receive_all(self) -> NoReturn:
        while True:
            data, descriptor = self._channel.receive()
            try:
                self._dispatch(unpack(data, descriptor, self._rank))
            finally:
                if descriptor is not None:
                    os.close(descriptor)

    def _rank(self, label: Any) -> RankTrace:
        return next(trace for _, trace in self._ranks.values() if trace.label == label)

    def _dispatch(self, reply: messages.Reply) -> None:
        """Apply changes of findings, and put the reply into the inbox that waits for it."""
        if isinstance(reply, messages.FindingsChanged):
            self.findings = reply.changes.applied(self.findings)
        if isinstance(reply, messages.RankUnavailable):
            with self._lock:
                for inbox in self._inboxes.values():
                    inbox.put(reply)
            return
        number = reply.number if isinstance(reply, messages.QueryAnswered) else reply.run
        with self._lock:
            if number in self._inboxes:
                self._inboxes[number].put(reply)


_POLL_S: Final = 0.05
_TRIES: Final = 2
ENDED: Final = "the computing process has ended (out of memory?)"
AGAIN: Final = f"{ENDED}: it starts again"
LATER: Final = f"{ENDED}: it restarts when needed"
TWICE: Final = f"{ENDED}, twice: the numbers shown stay"


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
        from ccltui.tui.engine.packed_findings import release_memory  # noqa: PLC0415  (imports numpy)

        if session.job is None or cancelled():
            return True
        self._post = post
        if any(trace.place is None for trace in session.job.ranks):
            return self._run_locally(session, post, cancelled)
        for left in reversed(range(_TRIES)):
            try:
                complete = self._run(session, post, cancelled)
                release_memory(session.job, heap=True)
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
                server.send(messages.StartRun(number, replace(session, job=None)))
                self._session, self._is_local = session, False
            complete = None
            while complete is None:
                complete = self._process(_received(inbox), server, post)
                if complete is None and cancelled():
                    server.send(messages.CancelRun(number))
                    return True
        return complete

    def _process(
        self,
        replies: list[messages.Reply | None],
        server: ServerProcess,
        post: Callable[[Fact], object],
    ) -> bool | None:
        """Post new findings; return what `Analyst.run` returned, None while the run goes on."""
        if any(isinstance(reply, messages.FindingsChanged) for reply in replies):
            post(FindingsReady(server.findings))  # changes received together are posted once
        for reply in replies:
            match reply:
                case messages.RunFinished(complete=complete):
                    if None in replies:  # ended right behind it, with nobody else to report that
                        self._post_ended()
                    return complete
                case messages.RankUnavailable():
                    raise RankUnavailableError
                case None | messages.RunFailed(process_ends=True):
                    raise ServerEndedError
                case messages.RunFailed(problem=problem):
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
                server.send(messages.AskQuery(number, scene.findings.generation, query))
                while not isinstance(reply := inbox.get(), messages.QueryAnswered):
                    if reply is None or isinstance(reply, messages.RankUnavailable):
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
                self._server.send(messages.PrepareQueries(replace(session, job=None)))
        return self._server

    def _post_ended(self, problem: str = "") -> None:
        self._post(Problem(problem or LATER))

    def _run_locally(
        self, session: Session, post: Callable[[Fact], object], cancelled: Callable[[], bool]
    ) -> bool:
        from ccltui.tui.engine.analysis import Analyst  # noqa: PLC0415  (imports all metrics)

        self._local, self._is_local = self._local or Analyst(), True
        return self._local.run(session, post, cancelled)


def _received(inbox: Inbox) -> list[messages.Reply | None]:
    """Return the replies that are there, after at most ``_POLL_S``; an empty list without any."""
    found: list[messages.Reply | None] = []
    with contextlib.suppress(queue.Empty):
        found.append(inbox.get(timeout=_POLL_S))
        while True:
            found.append(inbox.get_nowait())
    return found
