"""Base class of the charts: a row for each rank, and a cursor along an axis."""

from __future__ import annotations

from ccltui.tui.state.pane import Pane
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Shown, ViewState


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
        from ccltui.tui.state.kernel_at import row_at_cursor

        row, rank = row_at_cursor(scene), scene.state.selection.rank
        return None if row is None or rank is None else (rank, row)
