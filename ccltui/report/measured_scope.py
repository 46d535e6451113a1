"""What the numbers of a run are restricted to; the explorer too is asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ccltui.parsers.window import Window, format_ranks, format_steps


@dataclass(frozen=True, slots=True)
class Selection:
    """What the numbers are restricted to; the default is everything."""

    window: Window | None = None
    steps: tuple[int, int] | None = None
    ranks: frozenset[int] | None = None
    group: str | None = None
    span: str = "steps"
    profile_mode: str = "auto"
    raw_clocks: bool = False
    overrides: Mapping[str, object] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, grammars as their shortest text."""
        return {
            "steps": None if self.steps is None else format_steps(self.steps),
            "ranks": None if self.ranks is None else format_ranks(self.ranks),
            "group": self.group,
            "span": self.span,
            "profile_mode": self.profile_mode,
            "raw_clocks": self.raw_clocks,
            "overrides": dict(self.overrides),
        }
