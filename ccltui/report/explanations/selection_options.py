"""The command-line options that select a part of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.window import format_ranks, format_steps, format_window

if TYPE_CHECKING:
    from collections.abc import Mapping


def command_options(
    selection: ViewOptions,
    capture: str | None = None,
    loading: Mapping[str, object] | None = None,
) -> tuple[str, ...]:
    """Return the options with which a command computes the same numbers.

    Args:
        selection: the part of the job.
        capture: the capture that was asked for, None for the default one.
        loading: further options of opening by name; those without a value are left out.
    """
    default = ViewOptions()
    given: dict[str, object] = {"--capture": capture, **(loading or {})}
    window = selection.window
    if window is not None and (window.start_ns is not None or window.end_ns is not None):
        given["--window"] = format_window(window)
    if selection.steps is not None:
        given["--steps"] = format_steps(selection.steps)
    if selection.ranks is not None:
        given["--ranks"] = format_ranks(selection.ranks)
    given["--group"] = selection.group
    given["--span"] = None if selection.span == default.span else selection.span
    given["--profile-mode"] = (
        None if selection.profile_mode == default.profile_mode else selection.profile_mode
    )
    # One word each: a value may begin with a minus.
    options = [f"{name}={value}" for name, value in given.items() if value is not None]
    options += ["--raw-clocks"] if selection.raw_clocks else []
    return (*options, *(f"--set={name}={value}" for name, value in selection.overrides.items()))
