"""Restriction of the numbers to a part of a job: time, steps, ranks, group and source.

Imports no numpy: the command line is checked before anything heavy is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from ccltui.parsers.job import ProfileMode
    from ccltui.parsers.window import Window

Span = Literal["steps", "inner", "trace"]


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """Part of a job that is measured; the default is everything.

    Attributes:
        window: Time in ns from the job's origin on the corrected clock; None: no limit.
        steps: Range of step ids, both included; None: all.
        ranks: Ranks; None: all.
        group: Label, description or name of a process group, or a dimension; None: all.
        profile_mode: Traces to use: torch (Kineto), nsys, or auto.
        raw_clocks: Leave the clocks of the hosts as recorded instead of aligning them.
        overrides: Values that replace fields of the workload card or set parameters of metrics.
        span: Measured time: the steps (the whole trace where none are marked), the steps
            without the first and the last (inner), or the whole trace.
    """

    window: Window | None = None
    steps: tuple[int, int] | None = None
    ranks: frozenset[int] | None = None
    group: str | None = None
    profile_mode: ProfileMode = "auto"
    raw_clocks: bool = False
    overrides: Mapping[str, object] = field(default_factory=dict)
    span: Span = "steps"

    def changed(self, **changes: Any) -> Self:
        """Return a copy with other values in some fields."""
        return replace(self, **changes)

    @property
    def limits_time(self) -> bool:
        """Whether a window or a range of steps is set."""
        return self.window is not None or self.steps is not None
