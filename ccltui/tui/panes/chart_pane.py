"""What charts have in common: their base class, and texts about the cursor."""

from __future__ import annotations

from collections.abc import Sequence

from ccltui.draw.palette import Ink, filled, style_of
from ccltui.draw.text import GAP, Line, fit_middle
from ccltui.parsers import numbers
from ccltui.tui.state.pane import Pane
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import Shown, ViewState


def collective_text(scene: Scene) -> str:
    """Describe the selected collective."""
    if scene.collective is None:
        return ""
    communicator, k = scene.collective
    size, step = int(communicator.message_bytes[k]), int(communicator.step[k])
    lag = int(communicator.lag_ns[k])
    culprit = None if scene.disproved else communicator.culprit(k)
    place = scene.state.worst
    name, kind = fit_middle(communicator.name, 30), communicator.kind[communicator.kind_id[k]]
    parts = [
        f"{scene.communicator_place}{name} {kind} #{numbers.count(k)}",
        f"worst {place + 1}/{scene.num_worst}" if place is not None else "",
        f"last {rank_name(culprit)}" if culprit is not None else "",
        "recording begins here" if communicator.begins[k] else "",
        _lag_text(scene, lag),
        numbers.binary_size(size) if size >= 0 else "",
        f"it {step}" if step >= 0 else "",
    ]
    return "  ".join(part for part in parts if part)


def _lag_text(scene: Scene, lag_ns: int) -> str:
    if scene.disproved:
        return "not proven to be the same on all ranks"
    return f"lag {numbers.duration(lag_ns)}" if lag_ns >= 0 else "not matched on all ranks"


def as_many(parts: Sequence[str], width: int) -> str:
    """Join as many parts as fit; only the first is ever cut."""
    text = parts[0]
    for part in parts[1:]:
        if part and len(text) + len(GAP) + len(part) <= width:
            text += GAP + part
    return text


def named(scene: Scene, inks: Sequence[Ink], names: Sequence[str]) -> Line:
    """Return a sample of each ink, followed by its name."""
    line: Line = []
    for ink, name in zip(inks, names, strict=True):
        glyph = filled(ink, colour=scene.colour)
        line += [(glyph, style_of(glyph, ink)), (name, Ink.TAB)]
    return line


class ChartPane(Pane):
    """Chart of ranks from top to bottom, one of them selected."""

    details = frozenset(Shown)

    def labels(self, scene: Scene) -> tuple[str, ...]:
        """Return the labels of the ranks, from top to bottom."""
        return scene.ranks

    def count(self, scene: Scene) -> int:
        """Return the number of ranks."""
        return len(self.labels(scene))

    def row(self, scene: Scene) -> int:
        """Return the row of the selected rank, the first where it has none."""
        labels, rank = self.labels(scene), scene.state.selection.rank
        return labels.index(rank) if rank in labels else 0

    def to_row(self, scene: Scene, row: int) -> ViewState:
        """Select the rank of a row."""
        return scene.state.select(rank=self.labels(scene)[row])

    def kernel_row(self, scene: Scene) -> tuple[str, int] | None:
        """Return the device work of the selected rank at the selected time."""
        from ccltui.tui.state.event_table import row_at_cursor

        row, rank = row_at_cursor(scene), scene.state.selection.rank
        return None if row is None or rank is None else (rank, row)
