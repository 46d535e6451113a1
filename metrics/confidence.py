"""How sure a statement is, in three parts: what happens, who causes it, and how much that is.

Doubt about one part does not lower another: that a rank is named with doubt does not make the time
doubtful that the others wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct, structs

Level = Literal["high", "medium", "low", "unknown"]

LEVELS: Final[Sequence[Level]] = ("unknown", "low", "medium", "high")
"""Levels in ascending order."""

_PARTS: Final[Mapping[str, str]] = {"what": "cause", "who": "rank", "how_much": "saving"}
"""Parts in the order in which they are stated, with their words."""


class Sure(Struct, frozen=True):
    """How sure it is what happens and why, who causes it, and what fixing it saves.

    ``unknown`` where nothing is stated.
    """

    what: Level = "high"
    who: Level = "unknown"
    how_much: Level = "unknown"

    def to_dict(self) -> dict[str, str]:
        """JSON form."""
        return structs.asdict(self)

    @property
    def text(self) -> str:
        """The parts in words; see `sure_text`."""
        return sure_text(self.to_dict())


def sure_text(sure: Mapping[str, str], separator: str = ", ") -> str:
    """Return the stated parts of a confidence in words: ``cause high, rank medium``.

    A part of which nothing is stated is left out; without any the text is ``not known``. Each level
    follows the name of its part, so that a part that stands alone is not read as the whole.

    Args:
        sure: Levels by part, as `Sure.to_dict` gives them.
        separator: Text between the parts.
    """
    known = [
        f"{words} {sure[part]}"
        for part, words in _PARTS.items()
        if sure.get(part, "unknown") != "unknown"
    ]
    return separator.join(known) or "not known"


def lowest(*levels: Level) -> Level:
    """Return the lowest of levels."""
    return min(levels, key=LEVELS.index)


def highest(*levels: Level) -> Level:
    """Return the highest of levels."""
    return max(levels, key=LEVELS.index)


def level_of_saving(saves_ms: float | None, bounds_ms: object, confidence: Level) -> Level:
    """Return how sure it is what fixing a cause saves: at most medium where only bounds are known.

    Args:
        saves_ms: The time saved, None where it is not known.
        bounds_ms: Least and most of it, None where it is known.
        confidence: Confidence of the cause.
    """
    if saves_ms is None:
        return "unknown" if bounds_ms is None else "low"
    return confidence if bounds_ms is None else lowest("medium", confidence)
