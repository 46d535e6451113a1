"""The process that computes for the explorer: maps the ranks it is told of, and answers.

The main thread computes, one thread receives, and every question has one. A run that nobody
waits for any more is left at once, as by ctrl+c. It ends with the explorer, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Final

from ccltui.parsers.errors import internal_error
from ccltui.parsers.ingest.rank_worker import deaf_to_interrupts
from ccltui.tui.engine.transport import Channel

if TYPE_CHECKING:
    from ccltui.parsers.columns import RankTrace
    from ccltui.parsers.job import Job
    from ccltui.tui.engine import server_messages
    from ccltui.tui.engine.analysis import Analyst
    from ccltui.tui.engine.messages import Fact
    from ccltui.tui.options import ExplorerOptions
    from ccltui.tui.state.job_findings import Findings
    from ccltui.tui.state.session import Session

_NO_MEMORY: Final = "out of memory"
_NOTHING: Final = -1


class _StaleError(BaseException):
    """Nobody waits for this run any more. No metric may take it for a failure of its own."""


def serve(connection: socket.socket, options: ExplorerOptions) -> None:
    """Compute until the explorer is gone."""
    _keep_quiet()
    _Server(Channel(connection), options).run()


def _keep_quiet() -> None:
    """Leave the terminal and its signals to the explorer."""
    deaf_to_interrupts()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


@dataclass(frozen=True, slots=True)
class _Task:
    """A session to compute for; without a run only to be ready for questions about it."""

    run: int | None
    session: Session


class _Server:
    def __init__(self, channel: Channel, options: ExplorerOptions) -> None:
        self._channel = channel
        self._options = options
        self._tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        self._main = threading.get_ident()
        self._wanted = 0  # the run that somebody waits for
        self._running = 0
        self._may_leave = False  # whether what is computed now may be left in the middle
        self._ranks: dict[int, RankTrace] = {}
        self._job: Job | None = None
        self._told: Findings | None = None
        self._analyst: Analyst | None = None
        self._news = threading.Condition()
        self._coming = _NOTHING  # generation that is being computed
        self._known = _NOTHING, _NOTHING  # generation that is told, and that of its communicators

    def run(self) -> None:
        """Compute what is asked for, for ever."""
        signal.signal(signal.SIGUSR1, self._leave_if_stale)
        threading.Thread(target=self._receive, daemon=True).start()
        from ccltui.metrics.registry import find  # noqa: PLC0415
        from ccltui.tui.engine.analysis import FIRST, Analyst  # noqa: PLC0415  (ranks come meanwhile)

        find(FIRST)
        self._analyst = Analyst(self._options)
        while True:
            self._do(self._tasks.get(), self._analyst)

    # Computing

    def _do(self, task: _Task, analyst: Analyst) -> None:
        from ccltui.tui.engine import server_messages  # noqa: PLC0415

        if task.run is None:
            with contextlib.suppress(Exception):  # the next run meets the same, and tells it
                analyst.look(task.session)
            self._learn(task.session.generation, task.session.generation)
            return
        run, self._running = task.run, task.run
        try:
            with self._leaving(may=True):
                told_all = analyst.run(task.session, self._post, lambda: self._wanted != run)
        except _StaleError:
            return
        except MemoryError:
            self._send(server_messages.Broken(run, _NO_MEMORY, ends=True))
            os._exit(1)
        except Exception as error:
            self._expect(_NOTHING)
            self._send(server_messages.Broken(run, internal_error(error)))
            return
        self._send(server_messages.Finished(run, told_all))

    @contextlib.contextmanager
    def _leaving(self, *, may: bool) -> Iterator[None]:
        """While this is computed it may be left in the middle, or must not be."""
        before = self._may_leave
        try:
            self._allow(may)
            yield
        finally:
            self._may_leave = False
        self._allow(before)

    def _allow(self, leave: bool) -> None:
        self._may_leave = leave
        if leave:
            self._leave_if_stale()

    def _leave_if_stale(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Also what the signal does that the receiving thread sends."""
        del number, frame
        if self._may_leave and self._wanted != self._running:
            self._may_leave = False
            raise _StaleError

    def _post(self, fact: Fact) -> None:
        """Tell what has come in; what is begun to be sent is sent whole."""
        from ccltui.tui.engine import server_messages  # noqa: PLC0415
        from ccltui.tui.engine.messages import FindingsReady  # noqa: PLC0415
        from ccltui.tui.state.job_findings import Findings  # noqa: PLC0415

        with self._leaving(may=False):
            if isinstance(fact, FindingsReady):
                changes = server_messages.Changes.between(self._told or Findings(), fact.findings)
                self._send(server_messages.Grown(self._running, changes))
                self._told = fact.findings
                self._learn(fact.findings.generation, fact.findings.matched)

    # Talking

    def _send(self, news: server_messages.News) -> None:
        from ccltui.parsers.columns import RankTrace  # noqa: PLC0415
        from ccltui.tui.engine.array_transfer import pack  # noqa: PLC0415

        def name_of(one: object) -> object:
            """Ranks are at the other end too, by their label."""
            return one.label if isinstance(one, RankTrace) else None

        data, file = pack(news, name_of)
        try:
            with contextlib.suppress(OSError):  # the thread that receives ends the process
                self._channel.send(data, None if file is None else file.fileno())
        finally:
            if file is not None:
                file.close()

    def _receive(self) -> None:
        try:
            while True:
                data, descriptor = self._channel.receive()
                try:
                    self._take(pickle.loads(data), descriptor)
                finally:
                    if descriptor is not None:
                        os.close(descriptor)
        finally:  # the explorer is gone
            os._exit(0)

    def _take(self, order: server_messages.Order, descriptor: int | None) -> None:
        from ccltui.tui.engine import server_messages  # noqa: PLC0415

        match order:
            case server_messages.NewRank():
                self._add(order, descriptor)
            case server_messages.NewJob(job, numbers):
                self._ranks = {n: self._ranks[n] for n in numbers if n in self._ranks}
                self._job = replace(job, ranks=tuple(self._ranks.values()))
            case server_messages.Analyse(run, session):
                self._expect(session.generation)
                self._want(run)  # before the task is there: else it would be taken for stale
                self._tasks.put(_Task(run, replace(session, job=self._job)))
            case server_messages.Look(session):
                self._expect(session.generation)
                self._tasks.put(_Task(None, replace(session, job=self._job)))
            case server_messages.Stop(run):
                if self._wanted == run:
                    self._expect(_NOTHING)
                    self._want(0)
            case server_messages.Ask():
                threading.Thread(target=self._answer, args=(order,), daemon=True).start()

    def _want(self, run: int) -> None:
        self._wanted = run
        signal.pthread_kill(self._main, signal.SIGUSR1)

    def _add(self, new: server_messages.NewRank, descriptor: int | None) -> None:
        from ccltui.parsers.ingest.rank_transfer import take_over  # noqa: PLC0415
        from ccltui.parsers.store.layout import columns_of, map_columns  # noqa: PLC0415
        from ccltui.tui.engine import server_messages  # noqa: PLC0415

        handed = new.handed
        known = [one for one in self._ranks.values() if one.place == handed.place]
        if known and known[0].added_ns == handed.facts.added_ns:  # told anew under another label
            self._ranks[new.number] = replace(
                handed.facts, **columns_of(known[0]), place=handed.place
            )
            return
        try:
            columns = map_columns(handed.place, descriptor)
        except (OSError, ValueError, KeyError):
            self._send(server_messages.Lost(new.number))
            return
        self._ranks[new.number] = take_over(handed, columns)

    def _expect(self, generation: int) -> None:
        with self._news:
            self._coming = generation
            self._news.notify_all()

    def _learn(self, generation: int, matched: int) -> None:
        with self._news:
            self._known = generation, matched
            self._news.notify_all()

    def _answer(self, ask: server_messages.Ask) -> None:
        from ccltui.tui.engine import server_messages  # noqa: PLC0415
        from ccltui.tui.state.answers import Answered  # noqa: PLC0415

        def waits() -> bool:
            """Whether it is about what an explorer knows from a process before this one."""
            known = self._known[ask.query.of_collectives]
            return ask.generation == self._coming != known

        with self._news:
            self._news.wait_for(lambda: not waits())
        try:
            analyst = self._analyst
            answered = None if analyst is None else analyst.reply(ask.generation, ask.query)
            self._send(server_messages.Reply(ask.number, answered))
        except Exception as error:
            answered = Answered(ask.query, problem=internal_error(error))
            self._send(server_messages.Reply(ask.number, answered))
