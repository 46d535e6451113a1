"""The process that computes, as the explorer holds it: what it is told, and what it tells."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from ccltui.tui.engine import server_messages
from ccltui.tui.engine.array_transfer import unpack
from ccltui.tui.engine.transport import Channel

if TYPE_CHECKING:
    from ccltui.parsers.columns import RankTrace
    from ccltui.parsers.job import Job
    from ccltui.tui.engine.start_server import Started
    from ccltui.tui.state.job_findings import Findings

Inbox = queue.SimpleQueue["server_messages.News | None"]
"""What one run or one question hears; None once the process has ended."""


class EndedError(Exception):
    """The process is no more."""


class LostError(Exception):
    """The process cannot map a rank that this one has mapped, or that lies in no file."""


class Child:
    """One process; ``findings`` are what it has told so far, on top of those it began with."""

    def __init__(
        self, started: Started, findings: Findings, ended: Callable[[str], object]
    ) -> None:
        """``ended`` is told why, as far as that is known, where nobody waits or it was a mistake.

        Another thread calls it.
        """
        self.findings = findings
        self._ended = ended
        self._numbers = itertools.count(1)
        self._ranks: dict[int, tuple[int, RankTrace]] = {}  # by identity
        self._job: Job | None = None
        self._listing = threading.Lock()
        self._waiting: dict[int, Inbox] = {}
        self._alive = True
        self._process = started.process
        self._channel = Channel(started.connection)
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def alive(self) -> bool:
        """Whether it has not ended, as far as is known."""
        return self._alive

    def number(self) -> int:
        """One that no run and no question had before."""
        return next(self._numbers)

    def show(self, job: Job) -> None:
        """Let it know the job as it is now. Raises EndedError, and LostError."""
        if job is self._job:
            return
        shown = {id(trace): self._ranks.get(id(trace)) or self._show(trace) for trace in job.ranks}
        self._ranks, self._job = shown, job
        numbers = tuple(number for number, _ in shown.values())
        self.tell(server_messages.NewJob(replace(job, ranks=()), numbers))

    def _show(self, trace: RankTrace) -> tuple[int, RankTrace]:
        from ccltui.parsers.ingest.rank_transfer import hand_over  # noqa: PLC0415  (the screen paints before)

        handed, number = hand_over(trace), self.number()
        if handed is None or trace.place is None:
            raise LostError
        kept = trace.place.kept
        self.tell(
            server_messages.NewRank(number, handed), None if kept is None else kept.descriptor
        )
        return number, trace

    def tell(self, order: server_messages.Order, descriptor: int | None = None) -> None:
        """Send an order. Raises EndedError."""
        try:
            self._channel.send(pickle.dumps(order), descriptor)
        except OSError:
            raise EndedError from None

    @contextlib.contextmanager
    def hearing(self, number: int) -> Iterator[Inbox]:
        """What comes for a run or a question."""
        inbox: Inbox = queue.SimpleQueue()
        with self._listing:
            self._waiting[number] = inbox
            if not self._alive:
                inbox.put(None)
        try:
            yield inbox
        finally:
            with self._listing:
                del self._waiting[number]

    def close(self) -> None:
        """Let it end."""
        with self._listing:
            self._alive = False
        self._channel.close()

    def _listen(self) -> None:
        problem = ""
        try:
            self._hear_all()
        except EOFError:
            pass
        except Exception as error:  # what comes cannot be understood: better a new process
            problem = f"internal error: {type(error).__name__}: {error}"
        with self._listing:
            unexpected, self._alive = self._alive, False
            waiting = list(self._waiting.values())
        for inbox in waiting:
            inbox.put(None)
        if unexpected and (problem or not waiting):
            self._ended(problem)
        self._channel.close()
        self._process.join(1.0)

    def _hear_all(self) -> NoReturn:
        while True:
            data, descriptor = self._channel.receive()
            try:
                self._hear(unpack(data, descriptor, self._rank))
            finally:
                if descriptor is not None:
                    os.close(descriptor)

    def _rank(self, label: Any) -> RankTrace:
        return next(trace for _, trace in self._ranks.values() if trace.label == label)

    def _hear(self, news: server_messages.News) -> None:
        if isinstance(news, server_messages.Grown):
            self.findings = news.changes.applied(self.findings)
        with self._listing:
            if isinstance(news, server_messages.Lost):
                for inbox in self._waiting.values():
                    inbox.put(news)
                return
            number = news.number if isinstance(news, server_messages.Reply) else news.run
            if number in self._waiting:
                self._waiting[number].put(news)
