"""Numbers of both jobs of ``ccltui A B``, as ``ccltui diff --metrics`` computes them.

The command runs in a process of its own, because it loads the other job with worker processes; it
ends when its answer is no longer wanted.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from ccltui.tui.state.answers import FileQuery

if TYPE_CHECKING:
    from ccltui.parsers.job import Job
    from ccltui.tui.state.scene import Scene


_POLL_S: Final = 0.1


def run_diff(words: Sequence[str], cancelled: Callable[[], bool]) -> tuple[bytes, bytes] | None:
    """Return what the command prints and its messages, None once ``cancelled``."""
    command = [sys.executable, "-P", "-m", "ccltui", "diff", *words]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        while True:
            try:
                return process.communicate(timeout=_POLL_S)
            except subprocess.TimeoutExpired:
                if cancelled():
                    process.kill()
                    return None


STILL: Final = "the comparison with B is still running"
_ONE_RUN: Final = "one run each, the spread between runs is unknown (--runs-vary)"
_DOUBTS: Final = {"not comparable": "not comparable", "unknown": "comparability unknown"}


class TimeOf(Struct, frozen=True):
    """A time of both sides in ms; ``direction`` None where the spread is unknown."""

    a_ms: float | None
    b_ms: float | None
    delta_ms: float | None
    half_width_ms: float | None = None
    direction: str | None = None
    status: str | None = None
    name: str | None = None
    detail: str | None = None

    @property
    def verdict(self) -> str:
        """Return added, gone, longer, shorter or noise; "" where the noise is not known."""
        if self.status in ("added", "gone"):
            return self.status
        return "noise" if self.direction == "not distinguishable" else self.direction or ""


class MetricOf(Struct, frozen=True):
    """One metric of both sides in its unit."""

    name: str
    a: int | float | None
    b: int | float | None
    delta: int | float | None
    half_width: float | None = None
    direction: str | None = None
    why: str | None = None

    @property
    def verdict(self) -> str:
        """Return higher, lower or noise; "" where the spread is unknown."""
        return "noise" if self.direction == "not distinguishable" else self.direction or ""


class DimensionOf(Struct, frozen=True):
    """One dimension or group of both sides: values by column of `parallelism`."""

    dim: str
    group: str | None
    a: Mapping[str, float | None]
    b: Mapping[str, float | None]

    def delta(self, column: str) -> float | None:
        """B minus A in a column."""
        of_a, of_b = self.a.get(column), self.b.get(column)
        return None if of_a is None or of_b is None else of_b - of_a


class _Work(TimeOf, frozen=True):
    """Device work of both sides, with what tells rows of one name apart."""

    shapes: str | None = None
    kind: str | None = msgspec.field(default=None, name="class")

    @property
    def key(self) -> tuple[str, str]:
        """Name, and shapes or class."""
        return self.name or "", self.shapes or self.kind or ""


class _Document(Struct, frozen=True):
    kind: str
    unit: str
    verdict: str
    step_time: TimeOf
    is_unjudged: bool = False
    why: str | None = None
    kinds: tuple[TimeOf, ...] = ()
    kernels: tuple[_Work, ...] = ()
    operators: tuple[_Work, ...] = ()
    metrics: tuple[MetricOf, ...] = ()
    by_dimension: tuple[DimensionOf, ...] = ()


class Compared(Struct, frozen=True, eq=False, dict=True):
    """Numbers of both sides; ``problem`` is the reason where there are none."""

    problem: str = ""
    document: _Document | None = None

    @cached_property
    def metrics(self) -> Mapping[str, MetricOf]:
        """Metrics by name."""
        return {row.name: row for row in self.document.metrics} if self.document else {}

    @cached_property
    def kernels(self) -> Mapping[tuple[str, str], TimeOf]:
        """Device work by name and class."""
        return {row.key: row for row in self.document.kernels} if self.document else {}

    @cached_property
    def operators(self) -> Mapping[tuple[str, str], TimeOf]:
        """Device work by operator and shapes."""
        return {row.key: row for row in self.document.operators} if self.document else {}

    @cached_property
    def dimensions(self) -> Mapping[tuple[str, str | None], DimensionOf]:
        """Dimensions, and groups by dimension and name."""
        rows = self.document.by_dimension if self.document else ()
        return {(row.dim, row.group): row for row in rows}

    @property
    def by_step(self) -> bool:
        """Whether times are of a step, else of all the measured time."""
        return self.document is not None and self.document.unit == "ms per step"

    @property
    def standing(self) -> str:
        """Return why B may not be called better or worse, "" where it may."""
        found = self.document
        if found is None:
            return self.problem
        if found.is_unjudged and found.verdict not in _DOUBTS:
            return _ONE_RUN
        doubt = _DOUBTS.get(found.verdict, "")
        return f"{doubt}: {found.why}" if doubt and found.why else doubt


class ComparedQuery(FileQuery[Compared], frozen=True):
    """Numbers of both jobs by ``ccltui diff`` with these arguments."""

    words: tuple[str, ...]

    def answer(self, job: Job, cancelled: Callable[[], bool]) -> Compared:
        """Return the numbers, or the message of the command where it has none."""
        done = run_diff((*self.words, "--metrics", "--traces", "--format", "json"), cancelled)
        if done is None:
            return Compared(STILL)
        return parsed(*done)


def parsed(printed: bytes, messages: bytes) -> Compared:
    """Return the numbers of a printed document."""
    if not printed:
        lines = messages.decode("utf-8", "replace").strip().splitlines()
        return Compared(lines[-1] if lines else "ccltui diff printed nothing")
    try:
        return Compared(document=msgspec.json.decode(printed, type=_Document))
    except msgspec.DecodeError:
        return Compared("these two are not traces: & compares them")


def query_of(scene: Scene) -> ComparedQuery | None:
    """Return the query for the numbers of B, None without a second path or before ranks load."""
    other = scene.other
    if other is None or scene.session.job is None or not scene.findings.complete:
        return None
    return ComparedQuery((*other.words(scene.session.path, scene.session.filter), *other.cache))
