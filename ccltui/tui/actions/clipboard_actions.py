"""Clipboard and screenshot actions: each performs its effect and returns a scene with a message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ccltui.parsers import numbers
from ccltui.tui.state.scene import Scene

if TYPE_CHECKING:
    from textual.app import App

    from ccltui.tui.options import ExplorerOptions


def copy(put: Callable[[str], None], scene: Scene, options: ExplorerOptions) -> Scene:
    """Copy the command line of the view to the clipboard of the user's terminal."""
    from ccltui.tui.actions.shell_command import command_line  # noqa: PLC0415  (not needed to start)

    text = command_line(scene, options)
    put(text)
    return replace(scene, said=f"copied: {text}")


def copy_rows(put: Callable[[str], None], scene: Scene) -> Scene:
    """Copy the rows in view to the clipboard with tabs between cells, as spreadsheets expect."""
    from ccltui.tui.actions.export import tabular  # noqa: PLC0415

    text, count = tabular(scene)
    if not count:
        return replace(scene, notice="nothing is in view that could be copied")
    put(text)
    return replace(scene, said=f"copied: {numbers.counted(count, 'row')}")


def take_picture(app: App[Any], scene: Scene) -> Scene:
    """Write a screenshot into the current directory."""
    from ccltui.report.output import write_new_file  # noqa: PLC0415
    from ccltui.tui.actions.export import free_name  # noqa: PLC0415

    path = free_name(f"ccltui-{scene.state.pane}", ".svg")
    try:
        write_new_file(app.export_screenshot().encode(), Path(path))
    except OSError as error:
        return replace(scene, notice=f"{path}: {error.strerror}")
    return replace(scene, said=f"picture in {path}")
