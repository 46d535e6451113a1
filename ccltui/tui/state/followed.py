"""State of a directory that is followed: the last look, what came, and which alerts hold."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.numbers import counted
from ccltui.tui.state.answers import ViewQuery

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.report.gates import Gate, Verdict
    from ccltui.tui.options import FollowSettings
    from ccltui.tui.state.job_findings import Findings


class Looked(Struct, frozen=True):
    """One look at the directory: when (seconds since 1970), what differs from the look before.

    ``waiting`` are the files that are not opened yet, and why. ``ended`` is why no further look
    follows, "" where one does.
    """

    at_s: float
    new: tuple[str, ...] = ()
    grown: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    waiting: Mapping[str, str] = field(default_factory=dict)
    ended: str = ""

    @property
    def has_changes(self) -> bool:
        """Whether any file came, grew or went."""
        return bool(self.new or self.grown or self.gone)

    def told(self) -> str:
        """Return what differs, in words; "" where nothing does."""
        parts = ((self.new, "new"), (self.grown, "grown"), (self.gone, "gone"))
        return ", ".join(f"{len(paths)} {what}" for paths, what in parts if paths)


class Followed(Struct, frozen=True):
    """What the screen shows of a followed directory. ``chosen`` is the selection of the alerts."""

    alerts: tuple[Gate, ...] = ()
    chosen: ViewOptions = field(default_factory=ViewOptions)
    last: Looked | None = None
    changed: Looked | None = None  # the last look that found a difference
    verdicts: tuple[Verdict, ...] = ()  # of all alerts on the newest complete findings
    alerted: bool = False  # whether any alert ever became true

    @classmethod
    def of(cls, settings: FollowSettings | None, chosen: ViewOptions) -> Followed | None:
        """Return the state before the first look, None where nothing is followed."""
        return None if settings is None else cls(settings.alerts, chosen)

    def after_look(self, looked: Looked) -> Followed:
        """Return the state after a look."""
        changed = looked if looked.has_changes else self.changed
        return replace(self, last=looked, changed=changed)

    def judged(self, verdicts: tuple[Verdict, ...]) -> Followed:
        """Return the state after the alerts were judged on newer findings."""
        return replace(self, verdicts=verdicts, alerted=self.alerted or any(_holding(verdicts)))

    def became_true(self, before: Followed | None) -> list[Verdict]:
        """Return the alerts that hold and did not hold before."""
        known = set() if before is None else {one.gate.text for one in _holding(before.verdicts)}
        return [one for one in _holding(self.verdicts) if one.gate.text not in known]

    def told(self, width: int) -> str:
        """Return when the directory was last looked at, and what came; shorter where it is narrow.

        Args:
            width: Cells of the whole line.
        """
        if self.last is None:
            return "looking"
        if self.last.ended:
            return f"no longer followed: {self.last.ended}"
        parts = [f"looked {clock_time(self.last.at_s)}"]
        if self.last.has_changes:
            parts.append(self.last.told())
        elif self.changed is not None and width >= _WIDE:
            parts.append(f"unchanged since {clock_time(self.changed.at_s)}")
        if self.last.waiting and width >= _WIDE:
            waiting = len(self.last.waiting)
            parts.append(f"{counted(waiting, 'file')} {'waits' if waiting == 1 else 'wait'}")
        return ", ".join(parts)

    def alert_text(self) -> str:
        """Return the conditions that hold, "" where none does."""
        return "; ".join(one.gate.text for one in _holding(self.verdicts))


_WIDE = 100


def _holding(verdicts: tuple[Verdict, ...]) -> list[Verdict]:
    return [one for one in verdicts if one.tripped]


def clock_time(at_s: float) -> str:
    """Return the local time of day of a time since 1970, in s."""
    return time.strftime("%H:%M:%S", time.localtime(at_s))


class AlertsQuery(ViewQuery["tuple[Verdict, ...]"], frozen=True):
    """Query for the alerts by the texts of their conditions, on the selection of the start."""

    keeps_last = True

    generation: int
    alerts: tuple[str, ...]
    chosen: ViewOptions

    def answer(self, view: View, findings: Findings) -> tuple[Verdict, ...]:
        """Judge the conditions; metrics that the findings lack are computed here."""
        from ccltui.metrics.registry import find  # noqa: PLC0415
        from ccltui.metrics.view.job_view import View as NewView  # noqa: PLC0415
        from ccltui.report.gates import judge, parse_gate  # noqa: PLC0415

        is_shown = view.options == self.chosen
        known = findings.results if is_shown else {}
        whole = view if is_shown else NewView(view.job, self.chosen, previous=view)
        verdicts = []
        for gate in map(parse_gate, self.alerts):
            metric = find(gate.metric)
            result = known[metric.name] if metric.name in known else metric.run(whole)
            verdicts.append(judge(gate, result))
        return tuple(verdicts)
