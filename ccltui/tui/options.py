"""Options that the explorer is started with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from ccltui.metrics.view.view_options import ViewOptions

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
