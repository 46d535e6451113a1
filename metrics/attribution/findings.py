"""What a verdict is made of, and what the rules need to know besides the ladder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ccltui.metrics.attribution.gains import Suspect
from ccltui.metrics.attribution.lines.left_out import Tail
from ccltui.metrics.view.exposed_waits import DEFAULT_MATERIALITY_PCT
from ccltui.parsers.array_types import F64

NOTHING: Final = "nothing recorded"
"""What a host does while its device idles, where no record of it exists."""


@dataclass(frozen=True)
class Finding:
    """A class within one rung, with its suspect, or why none can be named (``verdict`` "").

    ``saves_ns`` is what setting it back saves, ``bounds_ns`` what that lies between where it is not
    known more closely, ``bounds_why`` the reason, ``cap`` the highest confidence that it may have.
    ``absent`` are ranks without a file that the others may wait for.
    """

    verdict: str
    why: str
    suspect: Suspect | None = None
    saves_ns: float | None = None
    cap: int = 2
    hosts_cause: str | None = None
    absent: tuple[str, ...] = ()
    bounds_ns: tuple[float, float] | None = None
    bounds_why: str = ""


@dataclass(frozen=True)
class Context:
    """What the rules need besides the ladder.

    Attributes:
        materiality: share of the step below which nobody is a straggler.
        missing: ranks of the job that are in no file.
        missing_of: ranks without a file in a group (index), or in the groups of ranks (indices).
        names_only: whether matches rest on names and order alone.
        left_out: labels of ranks that are recorded and not compared.
        idle_causes: idle time of ranks (indices, None: all) by what their hosts do, ns; None where
            no host is recorded.
        copy_waits: idle time of ranks (indices, None: all) until copies from other ranks have ended
            that are of no collective, ns a step.
        has_launches: whether launches are recorded.
        filtered: labels of ranks whose file was cut down to some of the work of the device.
        hides_exchanges: whether devices copy to each other, in every step, in no recorded
            collective: ranks may wait for each other there, and idle as if for their hosts.
        tail: work behind the end of a line that no replay has; None without any.
        elements: elements of the all-to-alls of each rank in each step; None without any.
        lost: labels of ranks whose file is known to lack device work.
    """

    materiality: float = DEFAULT_MATERIALITY_PCT / 100
    missing: Sequence[int] = ()
    missing_of: Callable[[Suspect], Sequence[int]] = lambda _: ()
    names_only: bool = False
    left_out: Sequence[str] = ()
    idle_causes: Callable[[Sequence[int] | None], dict[str, float] | None] = lambda _: None
    copy_waits: Callable[[Sequence[int] | None], float] = lambda _: 0.0
    elements: F64 | None = None
    has_launches: bool = False
    filtered: Sequence[str] = ()
    hides_exchanges: Callable[[], bool] = lambda: False
    tail: Tail | None = None
    lost: Callable[[], Collection[str]] = tuple


@dataclass(frozen=True)
class Verdict:
    """The verdict on a job; ``confidence`` is None where nothing is concluded."""

    finding: Finding
    confidence: str | None
    agreement: float | None
    also: Sequence[tuple[str, Finding]] = ()
    ruled_out: Sequence[dict[str, str]] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    next: Sequence[str] = ()
