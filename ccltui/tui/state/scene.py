"""The immutable scene: session, findings, answers and view."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.tui.state.answers import Answers, Findings
from ccltui.tui.state.session import Session, of_last
from ccltui.tui.state.view_state import History, Order, ViewState

if TYPE_CHECKING:
    from ccltui.parsers.columns import RankTrace
    from ccltui.tui.options import OtherPath
    from ccltui.tui.state.communicator import Communicator
    from ccltui.tui.state.session import Followed


class Picked(Enum):
    """Kind of places that can be chosen from a list with figures."""

    COMMUNICATORS = "communicators"
    RANKS = "ranks"
    STEPS = "steps"
    KERNELS = "kernels"


class Scene(Struct, frozen=True):
    """Session, findings in it, and view of them."""

    session: Session
    state: ViewState = field(default_factory=ViewState)
    findings: Findings = field(default_factory=Findings)
    colour: bool = True
    notice: str = ""
    answers: Answers = field(default_factory=Answers)
    history: History = field(default_factory=History)
    marks: Mapping[str, ViewState] = field(default_factory=dict)
    said: str = ""  # message of the last action, a sentence
    bindings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # keys of the user
    other: OtherPath | None = None  # the second path, with which the open one is compared
    picking: Picked | None = None  # kind of places whose list is open
    followed: Followed | None = None  # None: the path is loaded once

    @property
    def needs_analysis(self) -> bool:
        """Whether anything is to be computed of the job.

        Without traces nothing is, but for alerts: panes read the other files by themselves.
        """
        job, followed = self.session.job, self.followed
        has_alerts = followed is not None and bool(followed.alerts)
        return has_alerts or bool(self.findings.lanes) or (job is not None and bool(job.ranks))

    @property
    def num_worst(self) -> int:
        """Number of collectives of all communicators that caused waits."""
        found = self.findings.worst_first
        return 0 if found is None else len(found)

    def worst_place(self, communicator: int, k: int) -> int | None:
        """Return the place of a collective among those of all communicators by caused wait."""
        found = self.findings.worst_first
        return None if found is None else found.place_of(communicator, k)

    @property
    def communicator_index(self) -> int:
        """Place of the communicator in view; 0 where there is none."""
        count = len(self.findings.communicators or ())
        return max(min(self.state.selection.communicator, count - 1), 0)

    @property
    def communicator(self) -> Communicator | None:
        """The communicator in view, None where there is none."""
        communicators = self.findings.communicators
        if not communicators:
            return None
        return communicators[self.communicator_index]

    @property
    def collective(self) -> tuple[Communicator, int] | None:
        """The communicator in view and the selected collective, None where none is selected."""
        communicator, k = self.communicator, self.state.selection.k
        if communicator is None or k is None or k >= len(communicator):
            return None
        return communicator, k

    @property
    def communicator_place(self) -> str:
        """Which communicator of how many is in view, "" of one."""
        count = len(self.findings.communicators or ())
        return f"{self.communicator_index + 1}/{count} " if count > 1 else ""

    def trace(self, label: str | None) -> RankTrace | None:
        """Return the trace of a rank, None where it is not loaded."""
        ranks = () if self.session.job is None else self.session.job.ranks
        return next((trace for trace in ranks if trace.label == label), None)

    @property
    def floor_ns(self) -> int | None:
        """The lag from which a rank is drawn as late; None where there is no communicator."""
        communicator, chosen = self.communicator, self.state.floor_ns
        return chosen if communicator is None or chosen is not None else communicator.drawn_ns

    @property
    def disproved(self) -> str:
        """Reason why matched collectives are not the same ones, "" unless the clocks show it."""
        result = self.findings.results.get("straggler_lag")
        if not self.findings.communicators or result is None or result.status != "unavailable":
            return ""
        found = [one.message for one in result.reasons if one.code == "unmatched_collectives"]
        return found[0] if found else ""

    @property
    def ranks(self) -> tuple[str, ...]:
        """Labels of all ranks in the order of the view."""
        return self.ordered(tuple(self.findings.lanes))

    @property
    def members(self) -> tuple[str, ...]:
        """Labels of the communicator's ranks in the order of the view."""
        communicator = self.communicator
        if communicator is None:
            return ()
        lanes = self.findings.lanes
        return self.ordered(tuple(label for label in communicator.labels if label in lanes))

    def ordered(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        """Sort labels, given in order of rank, by the order of the view, pinned ones first."""
        pins = [label for label in self.state.pins if label in labels]
        rest = [label for label in labels if label not in pins]
        return (*pins, *self._sorted(rest))

    def _sorted(self, labels: list[str]) -> list[str]:
        findings = self.findings
        if self.state.order is Order.WAIT_CAUSED:
            return sorted(labels, key=lambda label: -findings.harm_ns.get(label, 0))
        if self.state.order is Order.NODE:
            return sorted(labels, key=lambda label: findings.nodes.get(label, 0))
        one = self.communicator
        if self.state.order is Order.GROUP and one is not None:
            place = findings.groups.get(len(one.labels), {})
            return sorted(labels, key=lambda label: place.get(label, len(labels)))
        return labels

    def row_name(self, label: str) -> str:
        """Return a rank's name in charts: with the number of its host where there are several."""
        return _name_with_node(self.findings, label) if self.state.roomy else rank_name(label)

    def with_state(self, state: ViewState) -> Scene:
        """Return the scene with another view."""
        return replace(self, state=state)


@of_last
def _has_several_nodes(findings: Findings) -> bool:
    return len(set(findings.nodes.values())) > 1


def _name_with_node(findings: Findings, label: str) -> str:
    node = findings.nodes.get(label) if _has_several_nodes(findings) else None
    return rank_name(label) if node is None else f"{rank_name(label)} n{node}"


@of_last
def longest_names(findings: Findings) -> tuple[int, int]:
    """Return the length of the longest name of a rank, and of the longest with its host."""
    names = [rank_name(label) for label in findings.lanes]
    with_nodes = [_name_with_node(findings, label) for label in findings.lanes]
    return max(map(len, names), default=0), max(map(len, with_nodes), default=0)


def rank_name(label: str) -> str:
    """Return the displayed name of a rank: ``r16``; a file without a rank keeps its name."""
    return f"r{label}" if label[:1].isdigit() else label
