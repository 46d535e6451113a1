"""The second path that the explorer was started with, and the command that compares it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ccltui.parsers.window import format_ranks, format_steps, format_window

if TYPE_CHECKING:
    from ccltui.metrics.view.view_options import ViewOptions
    from ccltui.tui.options import ExplorerOptions


class OtherPath(Struct, frozen=True):
    """The second path (B), and the arguments that hold for the open one (A) however it is viewed.

    ``cache`` are arguments that change no number, which a printed command leaves out.
    """

    path: str
    of_a: tuple[str, ...] = ()
    cache: tuple[str, ...] = ()

    @classmethod
    def of(cls, path: str, options: ExplorerOptions) -> OtherPath:
        """Return the second path under the options that the explorer was started with."""
        words = [] if options.capture is None else ["--a", f"capture={options.capture}"]
        if options.iteration is not None:
            words += ["--a", f"iteration={options.iteration}"]
        if options.runs_vary_pct is not None:
            words += ["--runs-vary", f"{options.runs_vary_pct:g}"]
        directory = options.cache_dir
        cache = () if directory is None else ("--cache-dir", str(directory))
        return cls(path, tuple(words), cache)

    @property
    def name(self) -> str:
        """Last part of the path."""
        return Path(self.path).name or self.path

    def words(self, path: str, chosen: ViewOptions) -> list[str]:
        """Return the arguments of ``ccltui diff`` for the open path under the view's filters."""
        words = [path, self.path]
        if chosen.window is not None:
            words.append(f"--window={format_window(chosen.window)}")
        if chosen.steps is not None:
            words += ["--steps", format_steps(chosen.steps)]
        if chosen.ranks is not None:
            words += ["--ranks", format_ranks(chosen.ranks)]
        words += self.of_a
        if chosen.span != "steps":
            words += ["--span", chosen.span]
        if chosen.profile_mode != "auto":
            words += ["--profile-mode", chosen.profile_mode]
        for name, value in chosen.overrides.items():
            words += ["--set", f"{name}={value}"]
        return [*words, "--raw-clocks"] if chosen.raw_clocks else words
