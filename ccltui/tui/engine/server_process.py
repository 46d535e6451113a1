"""The explorer's side of the server process: send requests, sort replies."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import queue
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from ccltui.tui.engine import server_messages
from ccltui.tui.engine.array_transfer import unpack
from ccltui.tui.engine.transport import Channel

if TYPE_CHECKING:
    from ccltui.parsers.columns import RankTrace
    from ccltui.parsers.job import Job
    from ccltui.tui.engine.start_server import StartedServer
    from ccltui.tui.state.job_findings import Findings

Inbox = queue.SimpleQueue["server_messages.Reply | None"]
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
        self.send(server_messages.SetJob(job.without_ranks(), numbers))

    def _send_rank(self, trace: RankTrace) -> tuple[int, RankTrace]:
        # Imported after the first paint.
        from ccltui.parsers.ingest.rank_transfer import detach_columns  # noqa: PLC0415

        handed, number = detach_columns(trace), self.number()
        if handed is None or trace.place is None:
            raise RankUnavailableError
        kept = trace.place.kept
        descriptor = None if kept is None else kept.descriptor
        self.send(server_messages.AddRank(number, handed), descriptor)
        return number, trace

    def send(self, request: server_messages.Request, descriptor: int | None = None) -> None:
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

    def _dispatch(self, reply: server_messages.Reply) -> None:
        """Apply changes of findings, and put the reply into the inbox that waits for it."""
        if isinstance(reply, server_messages.FindingsChanged):
            self.findings = reply.changes.applied(self.findings)
        if isinstance(reply, server_messages.RankUnavailable):
            with self._lock:
                for inbox in self._inboxes.values():
                    inbox.put(reply)
            return
        number = reply.number if isinstance(reply, server_messages.QueryAnswered) else reply.run
        with self._lock:
            if number in self._inboxes:
                self._inboxes[number].put(reply)
