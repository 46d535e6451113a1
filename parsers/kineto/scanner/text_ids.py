"""Ids for texts and other keys, given while reading and ordered at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ccltui.parsers.array_types import I32
from ccltui.parsers.columns import MISSING, Strings
from ccltui.parsers.kineto.json_text.typed_event import Scalar

_Key = TypeVar("_Key")


class StringPool:
    """Interns texts to ids in order of appearance."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._texts: list[str] = []

    def id_of(self, text: Scalar) -> int:
        """Id of ``text``; -1 for an absent one."""
        if text is None:
            return MISSING
        if not isinstance(text, str):
            text = str(text)
        found = self._ids.get(text)
        if found is None:
            found = self._ids[text] = len(self._texts)
            self._texts.append(text)
        return found

    def text_of(self, text_id: int) -> str:
        """The text of an id."""
        return self._texts[text_id]

    def finish(self, columns: Iterable[npt.NDArray[np.integer[Any]]]) -> tuple[Strings, I32]:
        """The texts that ``columns`` of ids use, sorted, and old id -> new id (-1 stays -1)."""
        used = np.zeros(len(self._texts) + 1, np.bool_)
        for column in columns:
            used[column] = True
        ids = {self._texts[index]: int(index) for index in np.flatnonzero(used[:-1])}
        texts, renumbered = in_order(ids, len(self._texts), key=str)
        return Strings.of(texts), renumbered


def in_order(
    ids: dict[_Key, int], count: int, key: Callable[[_Key], Any]
) -> tuple[list[_Key], I32]:
    """Keys sorted by ``key``, and old id (below ``count``) -> new id; -1 stays -1."""
    ordered = sorted(ids, key=key)
    renumbered = np.full(count + 1, MISSING, np.int32)
    renumbered[[ids[item] for item in ordered]] = np.arange(len(ordered))
    return ordered, renumbered
