"""Ids for texts and other keys, given while reading and ordered at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from parsers.columns import I32, MISSING, Strings
from parsers.kineto.event import Scalar

_Key = TypeVar("_Key")


class StringPool:
    """Interns texts to ids in order of appearance."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def id_of(self, text: Scalar) -> int:
        """Id of ``text``; -1 for an absent one."""
        if text is None:
            return MISSING
        return self.ids.setdefault(text if isinstance(text, str) else str(text), len(self.ids))

    def finish(self) -> tuple[Strings, I32]:
        """The texts in sorted order, and old id -> new id (-1 stays -1)."""
        texts, renumbered = in_order(self.ids, key=str)
        return Strings.of(texts), renumbered


def in_order(ids: dict[_Key, int], key: Callable[[_Key], Any]) -> tuple[list[_Key], I32]:
    """Keys sorted by ``key``, and old id -> new id; the slot that -1 reaches holds -1."""
    ordered = sorted(ids, key=key)
    renumbered = np.full(len(ids) + 1, MISSING, np.int32)
    renumbered[[ids[item] for item in ordered]] = np.arange(len(ids))
    return ordered, renumbered
