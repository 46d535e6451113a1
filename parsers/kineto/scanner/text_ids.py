"""Assign ids to texts while reading, and sort them at the end.

Final ids depend on the set of texts alone, not on the order of their appearance.
"""

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
    """Ids of texts in order of appearance."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._texts: list[str] = []

    def id_of(self, text: Scalar) -> int:
        """Return the id of ``text``, -1 for None; values of other types are converted to text."""
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
        """Return the text of an id."""
        return self._texts[text_id]

    def finish(self, columns: Iterable[npt.NDArray[np.integer[Any]]]) -> tuple[Strings, I32]:
        """Return the texts that ``columns`` of ids use, sorted, and the new id of each old one.

        Returns:
            The sorted texts, and an int32 array that maps old ids to new ones; index -1 maps to
            -1, and so do ids that no column uses.
        """
        used = np.zeros(len(self._texts) + 1, np.bool_)
        for column in columns:
            used[column] = True
        ids = {self._texts[index]: int(index) for index in np.flatnonzero(used[:-1])}
        texts, renumbered = in_order(ids, len(self._texts), key=str)
        return Strings.of(texts), renumbered


def in_order(
    ids: dict[_Key, int], count: int, key: Callable[[_Key], Any]
) -> tuple[list[_Key], I32]:
    """Sort keys and return them with the mapping from old ids to new ones.

    Args:
        ids: Old id of each key, below ``count``.
        count: Number of old ids.
        key: Sort key.

    Returns:
        The sorted keys, and an int32 array of ``count`` + 1 that maps old ids to new ones; -1 is
        mapped to -1.
    """
    ordered = sorted(ids, key=key)
    renumbered = np.full(count + 1, MISSING, np.int32)
    renumbered[[ids[item] for item in ordered]] = np.arange(len(ordered))
    return ordered, renumbered
