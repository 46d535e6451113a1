"""The server process: maps the ranks that the explorer sends, computes findings, answers queries.

The main thread computes, another one receives requests, and every query has a thread of its own.
A run that is cancelled is interrupted at once, as by ctrl+c. The process ends with the explorer,
however that ends. Importing this imports little: the process is started before the screen is made.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import pickle
import queue
import signal
import socket
import threading
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui.parsers.errors import internal_error
from ccltui.parsers.ingest.rank_worker import ignore_sigint
from ccltui.tui.engine.array_transfer import Channel

if TYPE_CHECKING:
    from pathlib import Path

    from ccltui.metrics.registry import Functions
    from ccltui.parsers.columns import RankTrace
    from ccltui.parsers.job import Job
    from ccltui.tui.engine import messages
    from ccltui.tui.engine.analysis import Analyst
    from ccltui.tui.engine.messages import Fact
    from ccltui.tui.state.answers import Findings
    from ccltui.tui.state.session import Session


IMPORTED_WHEN_IDLE: Final = (
    "ccltui.metrics.inspection.event_report",
    "ccltui.metrics.findings.causes.instance_report",
)
"""Modules without which the first answers of their kinds would wait."""
_NO_MEMORY: Final = "out of memory"
_NO_GENERATION: Final = -1


class _RunCancelledError(BaseException):
    """Exception raised in a run that is cancelled.

    Not an Exception, so that no metric takes it for a failure of its own.
    """


class StartedServer(Struct, frozen=True):
    """A server process and this end of the connection to it; it ends when that is closed."""

    process: BaseProcess
    connection: socket.socket

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()


def start_server(functions: Functions | None = None) -> StartedServer:
    """Start a server process that also computes the metrics in ``functions``.

    Raises:
        OSError: No process or no connection can be made.
    """
    # Imported here: the process itself starts no other one this way.
    from ccltui.parsers.ingest.worker_pool import starting  # noqa: PLC0415

    ours, theirs = socket.socketpair()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=serve, args=(theirs, functions), daemon=True)
    with theirs, starting():
        process.start()
    return StartedServer(process, ours)


def serve(connection: socket.socket, functions: Functions | None) -> None:
    """Compute until the explorer ends, also the metrics in ``functions``."""
    _detach_from_terminal()
    _Server(Channel(connection), functions).run()


def _detach_from_terminal() -> None:
    """Leave the terminal and its signals to the explorer."""
    ignore_sigint()
    devnull = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(devnull, descriptor)
    os.close(devnull)


class _Task(Struct, frozen=True):
    """A session to compute findings for; with ``run`` None only to prepare for queries about it."""

    run: int | None
    session: Session


class _Server:
    def __init__(self, channel: Channel, functions: Functions | None) -> None:
        self._channel = channel
        self._functions = functions
        self._tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        self._main_thread = threading.get_ident()
        self._requested_run = 0  # the run that the explorer waits for; 0 without one
        self._current_run = 0
        self._interruptible = False  # whether the main thread may be interrupted now
        self._ranks: dict[int, RankTrace] = {}
        # Number of the rank that was sent last, by the path and begin of its columns.
        self._latest: dict[tuple[Path, int | None], int] = {}
        self._job: Job | None = None
        self._sent: Findings | None = None
        self._analyst: Analyst | None = None
        self._generations = threading.Condition()  # guards the next two
        self._computing = _NO_GENERATION
        self._available = _NO_GENERATION, _NO_GENERATION  # of findings, of their communicators

    def run(self) -> None:
        """Perform tasks until the process ends."""
        signal.signal(signal.SIGUSR1, self._raise_if_cancelled)
        threading.Thread(target=self._receive, daemon=True).start()
        from ccltui.metrics.registry import find, use_functions  # noqa: PLC0415
        from ccltui.tui.engine.analysis import FIRST_METRIC, Analyst  # noqa: PLC0415  (ranks are received meanwhile)

        if self._functions is not None:
            use_functions(self._functions)
        find(FIRST_METRIC)
        self._analyst = Analyst()
        while True:
            self._perform(self._tasks.get(), self._analyst)

    # Computing

    def _perform(self, task: _Task, analyst: Analyst) -> None:
        from ccltui.tui.engine import messages  # noqa: PLC0415

        if task.run is None:
            with contextlib.suppress(Exception):  # the next run fails the same way, and reports it
                analyst.prepare(task.session)
            self._generation_available(task.session.generation, task.session.generation)
            return
        run, self._current_run = task.run, task.run
        try:
            with self._interruption(allowed=True):
                complete = analyst.run(task.session, self._post, lambda: self._requested_run != run)
        except _RunCancelledError:
            return
        except MemoryError:
            self._send(messages.RunFailed(run, _NO_MEMORY, process_ends=True))
            os._exit(1)
        except Exception as error:
            self._generation_requested(_NO_GENERATION)
            self._send(messages.RunFailed(run, internal_error(error)))
            return
        self._send(messages.RunFinished(run, complete))
        if complete:
            for name in IMPORTED_WHEN_IDLE:
                importlib.import_module(name)

    @contextlib.contextmanager
    def _interruption(self, *, allowed: bool) -> Iterator[None]:
        """Allow or forbid that the main thread is interrupted while the block runs."""
        before = self._interruptible
        try:
            self._allow_interruption(allowed)
            yield
        finally:
            self._interruptible = False
        self._allow_interruption(before)

    def _allow_interruption(self, allowed: bool) -> None:
        self._interruptible = allowed
        if allowed:
            self._raise_if_cancelled()

    def _raise_if_cancelled(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Raise if the current run is cancelled; also the handler of the receiver's signal."""
        del number, frame
        if self._interruptible and self._requested_run != self._current_run:
            self._interruptible = False
            raise _RunCancelledError

    def _post(self, fact: Fact) -> None:
        """Send what has changed; a message that is begun is sent whole."""
        from ccltui.tui.engine import messages  # noqa: PLC0415
        from ccltui.tui.engine.messages import FindingsReady  # noqa: PLC0415
        from ccltui.tui.state.answers import Findings  # noqa: PLC0415

        with self._interruption(allowed=False):
            if isinstance(fact, FindingsReady):
                changes = messages.Changes.between(self._sent or Findings(), fact.findings)
                self._send(messages.FindingsChanged(self._current_run, changes))
                self._sent = fact.findings
                self._generation_available(fact.findings.generation, fact.findings.matched)

    # Messages

    def _send(self, reply: messages.Reply) -> None:
        from ccltui.parsers.columns import RankTrace  # noqa: PLC0415
        from ccltui.tui.engine.array_transfer import pack  # noqa: PLC0415

        def label_of(one: object) -> object:
            """Refer to ranks, which the explorer has too, by their label."""
            return one.label if isinstance(one, RankTrace) else None

        data, file = pack(reply, label_of)
        try:
            with contextlib.suppress(OSError):  # the receiving thread ends the process
                self._channel.send(data, None if file is None else file.fileno())
        finally:
            if file is not None:
                file.close()

    def _receive(self) -> None:
        try:
            while True:
                data, descriptor = self._channel.receive()
                try:
                    self._handle(pickle.loads(data), descriptor)
                finally:
                    if descriptor is not None:
                        os.close(descriptor)
        finally:  # the explorer has ended
            os._exit(0)

    def _handle(self, request: messages.Request, descriptor: int | None) -> None:
        from ccltui.tui.engine import messages  # noqa: PLC0415

        match request:
            case messages.AddRank():
                self._add_rank(request, descriptor)
            case messages.SetJob(job, numbers):
                self._ranks = {n: self._ranks[n] for n in numbers if n in self._ranks}
                self._job = replace(job, ranks=tuple(self._ranks.values()))
            case messages.StartRun(run, session):
                self._generation_requested(session.generation)
                self._request_run(run)  # before the task: else it would count as cancelled
                self._tasks.put(_Task(run, replace(session, job=self._job)))
            case messages.PrepareQueries(session):
                self._generation_requested(session.generation)
                self._tasks.put(_Task(None, replace(session, job=self._job)))
            case messages.CancelRun(run):
                if self._requested_run == run:
                    self._generation_requested(_NO_GENERATION)
                    self._request_run(0)
            case messages.AskQuery():
                threading.Thread(target=self._answer, args=(request,), daemon=True).start()

    def _request_run(self, run: int) -> None:
        self._requested_run = run
        signal.pthread_kill(self._main_thread, signal.SIGUSR1)

    def _add_rank(self, new: messages.AddRank, descriptor: int | None) -> None:
        from ccltui.parsers.ingest.load import attach_columns  # noqa: PLC0415
        from ccltui.parsers.store.stored_columns import columns_of, map_columns  # noqa: PLC0415
        from ccltui.tui.engine import messages  # noqa: PLC0415

        handed = new.handed
        where = handed.place.path, handed.place.begin
        known = self._ranks.get(self._latest.get(where, 0))
        self._latest[where] = new.number
        is_same = known is not None and known.place == handed.place
        if known and is_same and known.added_ns == handed.facts.added_ns:  # with another label
            self._ranks[new.number] = replace(handed.facts, **columns_of(known), place=handed.place)
            return
        try:
            columns = map_columns(handed.place, descriptor)
        except (OSError, ValueError, KeyError):
            self._send(messages.RankUnavailable(new.number))
            return
        self._ranks[new.number] = attach_columns(handed, columns)

    def _generation_requested(self, generation: int) -> None:
        with self._generations:
            self._computing = generation
            self._generations.notify_all()

    def _generation_available(self, generation: int, matched: int) -> None:
        with self._generations:
            self._available = generation, matched
            self._generations.notify_all()

    def _answer(self, request: messages.AskQuery) -> None:
        from ccltui.tui.engine import messages  # noqa: PLC0415
        from ccltui.tui.state.answers import Answered  # noqa: PLC0415

        def is_pending() -> bool:
            """Whether this process still computes what the query is about.

            The explorer may have the findings from a process before this one.
            """
            available = self._available[request.query.of_collectives]
            return request.generation == self._computing != available

        with self._generations:
            self._generations.wait_for(lambda: not is_pending())
        try:
            analyst = self._analyst
            answered = (
                None
                if analyst is None
                else analyst.answer_newest(request.generation, request.query)
            )
            self._send(messages.QueryAnswered(request.number, answered))
        except Exception as error:
            answered = Answered(request.query, problem=internal_error(error))
            self._send(messages.QueryAnswered(request.number, answered))
