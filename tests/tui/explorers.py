"""Types of the fixtures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from textual.pilot import Pilot

from ccltui.tui.app import Explorer

Start = Callable[..., Explorer]
Settle = Callable[[Pilot[int]], Awaitable[None]]
