"""``ccltui DIR --follow``: print a JSON line whenever the files of a running job change."""

from __future__ import annotations

import datetime
import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui import exit_codes
from ccltui.arguments import INTERVAL_S
from ccltui.commands.loading import LoadedJob, LoadOptions, load_job
from ccltui.commands.measure import (
    Measured,
    check_overrides,
    choose_metrics,
    measure_loaded,
    nothing_opened,
    required_of,
)
from ccltui.commands.print_metrics import judged
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.discovery.discover import Changes, Watch
from ccltui.parsers.errors import GrammarError, TraceError
from ccltui.report.explanation import headline
from ccltui.report.gates import Gate, run_command
from ccltui.report.json_document import Entry, Report, result_dict
from ccltui.report.output import print_message, require_target, write_report

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric

SCHEMA: Final = "ccltui.follow/1"


class FollowOptions(Struct, frozen=True):
    """Metrics and conditions to watch, the pace, and the report of the last state."""

    metrics: tuple[str, ...] = ()
    alerts: tuple[Gate, ...] = ()
    command: str | None = None
    interval_s: float = INTERVAL_S
    until_idle_s: float | None = None
    output: str | None = None
    format: str = "json"
    debug: bool = False


class Stop:
    """A request to stop, by a signal; it ends a wait."""

    def __init__(self) -> None:
        self._asked = False
        self._wake: SimpleQueue[None] = SimpleQueue()

    def __call__(self) -> bool:
        """Whether a stop was requested."""
        return self._asked

    def on_signal(self, _number: int, _frame: object) -> None:
        """Request a stop; the second signal interrupts what is being computed."""
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        self._wake.put(None)  # safe in a handler of signals, unlike an event

    def wait(self, seconds: float) -> None:
        """Wait until the time is over or a stop is requested."""
        try:
            self._wake.get(timeout=seconds)
        except Empty:
            return


@contextmanager
def _stopped_by_signals() -> Iterator[Stop]:
    stop = Stop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, stop.on_signal) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(options: FollowOptions, loading: LoadOptions, selection: ViewOptions) -> int:
    """Follow a directory until a signal or until it is idle; return the exit status.

    Raises GrammarError for an invalid command line, before anything is loaded.
    """
    require_target(options.output)
    with _stopped_by_signals() as stop:
        follower = Follower(options, loading, selection, stop)
        idle_since = time.monotonic()
        while not stop():
            began = time.monotonic()
            if follower.step(time.time_ns()):
                idle_since = time.monotonic()
            idle_s = time.monotonic() - idle_since
            if options.until_idle_s is not None and idle_s >= options.until_idle_s:
                follower.accept_all()
                break
            # An update takes at most half of the time, however large the job is.
            stop.wait(max(options.interval_s, time.monotonic() - began))
    return follower.finish()


class Follower:
    """The state of a followed directory; `step` is called at every interval."""

    def __init__(
        self,
        options: FollowOptions,
        loading: LoadOptions,
        selection: ViewOptions,
        stop: Stop | None = None,
    ) -> None:
        """Check the names of metrics. Raises GrammarError."""
        self._options = options
        self._loading = loading
        self._selection = selection
        self._stop = stop or Stop()
        self._named = choose_metrics(options.metrics)
        conditions = [gate.metric for gate in options.alerts]
        self._metrics = choose_metrics([*options.metrics, *conditions, "findings"])
        check_overrides(selection.overrides, self._metrics)
        self._watch = Watch(loading.path, options.interval_s)
        self._measured = nothing_opened(self._metrics, loading.path, "no file is whole yet")
        self._true: frozenset[str] = frozenset()
        self._alerted = False

    def step(self, now_ns: int) -> bool:
        """Look once, open what is whole, and print what changed; return whether anything did."""
        changes = self._watch.look(now_ns)
        opened = self._watch.is_due()
        if opened:
            self._open(hold=True)
        if changes or opened:
            self._print("change", changes)
            self._check_alerts()
        return bool(changes or opened)

    def accept_all(self) -> None:
        """Open also files that their readers find incomplete, as a command without --follow."""
        self._watch.accept_all()
        if self._watch.is_due():
            self._open(hold=False)
            self._print("change", Changes())
            self._check_alerts()

    def finish(self) -> int:
        """Print the last state, write the report of it, and return the exit status."""
        self._print("end", Changes())
        measured = self._measured
        names = {metric.name for metric in self._named}
        shown = tuple(one for one in measured.results if one[0].name in names)
        if self._options.output is not None:
            from ccltui.report.writers import writer_named  # noqa: PLC0415  (imports orjson)

            entries = [Entry(result, metric.headline) for metric, result in shown]
            report = Report(measured.trace, self._selection, entries)
            write_report(writer_named(self._options.format)(report), self._options.output)
        if self._alerted:
            return exit_codes.ALERT
        named = replace(measured, required=required_of(self._options.metrics))
        return named.exit_status if shown or measured.problem is not None else exit_codes.OK

    def _open(self, *, hold: bool) -> None:
        """Load and measure the files to open; with ``hold`` without those that have no end."""
        try:
            loaded = self._load()
            while hold and self._watch.hold(loaded.job.unfinished_files):
                loaded = self._load()
        except GrammarError:
            raise
        except (TraceError, OSError) as error:
            self._measured = nothing_opened(self._metrics, self._loading.path, str(error))
            return
        if not loaded.complete:  # a signal: what was known before is the last state
            return
        self._measured = measure_loaded(
            loaded, self._metrics, self._loading, self._selection, debug=self._options.debug
        )

    def _load(self) -> LoadedJob:
        return load_job(self._loading, walked=self._watch.take(), cancelled=self._stop)

    def _print(self, event: str, changes: Changes) -> None:
        measured = self._measured
        results = {metric.name: result for metric, result in measured.results}
        line = {
            "files": {"new": changes.new, "grown": changes.grown, "gone": changes.gone},
            "waiting": self._watch.waiting(),
            "ranks": measured.trace.ranks,
            "problem": measured.problem,
            "finding": None if measured.problem is not None else headline(results),
            "metrics": [_short(metric, measured) for metric in self._named],
        }
        self._write(event, line)

    def _check_alerts(self) -> None:
        """Print and announce the conditions that became true."""
        verdicts = [judged(gate, self._measured) for gate in self._options.alerts]
        for verdict in verdicts:
            if verdict.tripped and verdict.gate.text not in self._true:
                self._alerted = True
                self._write("alert", {"condition": verdict.gate.text, "value": verdict.value})
                if self._options.command is not None:
                    path = self._loading.path
                    problem = run_command(self._options.command, verdict, path, output=sys.stderr)
                    if problem is not None:
                        print_message(problem)
        self._true = frozenset(one.gate.text for one in verdicts if one.tripped)

    def _write(self, event: str, line: Mapping[str, Any]) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        head = {"schema": SCHEMA, "time": now, "event": event}
        sys.stdout.write(json.dumps({**head, **line}) + "\n")
        sys.stdout.flush()


def _short(metric: Metric, measured: Measured) -> dict[str, Any]:
    """Value of a metric as a line has it; its details are in the report."""
    result = next(result for one, result in measured.results if one.name == metric.name)
    whole = result_dict(result)
    return {name: whole[name] for name in ("metric", "status", "value", "unit", "reason")}
