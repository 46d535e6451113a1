"""When the next analysis begins while ranks are still loading.

Every analysis takes time in proportion to the ranks that are there. Where each begins only after
these have grown by a share, all of them together cost a fixed multiple of the last one, however
many ranks arrive and however fast.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ccltui.tui.state.session import Session

GROWTH: Final = 1.5
"""Factor by which the loaded ranks grow between two analyses: all before the last one together cost
at most 1 / (1 - 1 / 1.5) - 1 = 2 times the last one."""
PATIENCE: Final = 20.0
"""Durations of the last analysis after which the next one begins without that growth: where ranks
arrive slowly, each is shown, for at most a twentieth of the time."""


class Analysed(Struct, frozen=True):
    """The analysis before: its session, its duration, and the time since it ended (0: it runs)."""

    session: Session
    seconds: float
    ago_s: float
    running: bool


def is_due(session: Session, last: Analysed | None) -> bool:
    """Return whether an analysis of a session begins now, or waits for further ranks.

    It never waits when loading has ended, or when the user chose another part of the job.
    """
    if last is None or not session.busy or session.since != last.session.since:
        return True
    if last.running:  # a second one would cancel it
        return False
    grown = _extent(session) >= GROWTH * _extent(last.session)
    return grown or last.ago_s >= PATIENCE * last.seconds


def _extent(session: Session) -> int:
    """Number of ranks of which a part is there, and of those that are whole."""
    return 2 * session.ranks_loaded + session.ranks_partly
