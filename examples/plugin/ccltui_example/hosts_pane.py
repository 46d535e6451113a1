"""Hosts: the ranks of each host.

Panes are imported before the first frame is painted, so numpy is imported in methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ccltui.draw.palette import Ink
from ccltui.draw.text import Line
from ccltui.tui.state.pane import Pane
from ccltui.tui.state.scene import Scene

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes


class HostsPane(Pane):
    """The ranks of each host, one line per host."""

    name = "hosts"
    key = "&"
    title = "Hosts"
    short_title = "Hosts"
    about = "The ranks of each host, in the order of the hosts."

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw one line per host."""
        from ccltui.draw.planes import Planes  # noqa: PLC0415

        planes = Planes.blank(height, width, Ink.TEXT)
        nodes = scene.findings.nodes
        for row, host in enumerate(sorted(set(nodes.values()))):
            labels = [label for label, node in nodes.items() if node == host]
            planes.put(row, 1, f"host {host}: ranks {', '.join(labels)}", Ink.TEXT)
        return planes

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return the number of hosts."""
        return [(f"hosts: {len(set(scene.findings.nodes.values()))} ", Ink.TAB)]


HOSTS = HostsPane()
