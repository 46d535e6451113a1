"""What the explorer is started with: its options, and a second path to compare with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.window import format_ranks, format_steps, format_window

if TYPE_CHECKING:
    from ccltui.metrics.registry import Functions
    from ccltui.report.gates import Gate

DriverName = Literal["slim", "plain"]
ThemeName = Literal["auto", "dark", "light", "ansi"]
ColorName = Literal["auto", "truecolor", "256", "16", "never"]


class FollowSettings(Struct, frozen=True, kw_only=True):
    """How a directory is followed while a job writes to it."""

    interval_s: float
    until_idle_s: float | None = None
    alerts: tuple[Gate, ...] = ()
    command: str | None = None
    """Program that is started when an alert becomes true."""


class ExplorerOptions(Struct, frozen=True, kw_only=True):
    """Path to open and display settings; every field has a default."""

    rank_map: Mapping[str, int] | None = None
    iteration: int | None = None
    capture: str | None = None
    sample_ranks: int | None = None
    view: ViewOptions = field(default_factory=ViewOptions)
    cache_dir: Path | None = None
    jobs: int | None = None
    driver: DriverName = "slim"
    color: ColorName = "auto"
    theme: ThemeName = "auto"
    ascii: bool = False
    mouse: bool = True
    record: str | None = None
    replay: str | None = None
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Keys by action id, where they differ from the registry."""
    against: str | None = None
    """Second path, which the Compare pane compares with the open one."""
    runs_vary_pct: float | None = None
    """By how many percent two runs of one command differ, where it was stated."""
    functions: Functions | None = None
    """Functions in files that are metrics of this run."""
    follow: FollowSettings | None = None
    """How the path is followed; None: it is loaded once."""


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
