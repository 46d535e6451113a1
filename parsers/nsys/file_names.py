"""The texts behind the names of a file's events, looked up only for ids that events use."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from parsers.columns import I32, MISSING, Bool, Strings
from parsers.nsys.database import Database
from parsers.nsys.nvtx import RangeName, Ranges, payload_of, range_name
from parsers.nsys.rows import NameKey

_CATEGORIES = ("kernel", "cuda_runtime", "cuda_sync", "nvtx", "osrt")


class FileNames:
    """Texts by provisional name id; ``ranges`` are those that name NVTX ranges."""

    def __init__(self, texts: list[str], ranges: dict[int, RangeName], payloads: list[Any]) -> None:
        self.texts = texts
        self.ranges = ranges
        self.payloads = payloads
        self.ids: dict[str, int] = {}
        self._final: I32 = np.empty(0, np.int32)

    @classmethod
    def of(cls, database: Database, keys: list[NameKey], ranges: Ranges) -> FileNames:
        """Look up every text that ``keys`` and the ranges refer to."""
        contents = ranges.payloads.keys()
        wanted = [key[1] for key in keys if key[0] == "id"]
        wanted += [key[2] for key in keys if len(key) > 2 and isinstance(key[2], int)]
        wanted += [name for name in ranges.domains.values() if isinstance(name, int)]
        wanted += [content for content in contents if isinstance(content, int)]
        found = database.texts(wanted)
        texts, known = [], {}
        for index, key in enumerate(keys):
            if key[0] == "text":
                texts.append(key[1])
            elif key[0] == "id":
                texts.append(found.get(key[1], ""))
            else:
                known[index] = range_name(key, ranges, found)
                texts.append(known[index].shown)
        return cls(texts, known, [payload_of(content, found) for content in contents])

    def is_operator(self) -> Bool:
        """Which name ids are ranges of operators, bool."""
        mask = np.zeros(len(self.texts) + 1, np.bool_)
        mask[[index for index, name in self.ranges.items() if name.is_operator]] = True
        return mask

    def finish(self, further: set[str]) -> tuple[Strings, dict[str, int]]:
        """All texts, sorted, and their ids; ``final`` works from now on."""
        ordered = sorted({*self.texts, *further, *_CATEGORIES})
        ids = {text: index for index, text in enumerate(ordered)}
        self._final = np.array([*(ids[text] for text in self.texts), MISSING], np.int32)
        self.ids = ids
        return Strings.of(ordered), ids

    def final(self, provisional: npt.NDArray[Any]) -> I32:
        """String ids of provisional name ids."""
        return np.asarray(self._final[provisional])
