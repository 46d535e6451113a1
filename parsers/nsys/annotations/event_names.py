"""Look up the texts of event names, only for string ids that events use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ccltui.parsers.array_types import Bool
from ccltui.parsers.columns import MISSING, Strings
from ccltui.parsers.nsys.annotations.nvtx import NCCL, RangeName, Ranges, range_name
from ccltui.parsers.nsys.annotations.nvtx_payloads import PayloadSchemas
from ccltui.parsers.nsys.sqlite.database import Database
from ccltui.parsers.nsys.sqlite.table_rows import TableRows


class FileNames:
    """Names and payloads of ranges by number, and the final ids of all texts of the file."""

    def __init__(self, ranges: list[RangeName], payloads: list[Mapping[str, Any]]) -> None:
        self.ranges = ranges
        self.payloads = payloads
        self.ids: dict[str, int] = {}

    @classmethod
    def of(cls, database: Database, tables: Sequence[TableRows], ranges: Ranges) -> FileNames:
        """Look up every text that the tables refer to; set their ``texts``."""
        wanted = [key[1] for table in tables for key in table.names if key[0] == "id"]
        wanted += [key[2] for key in ranges.rows.names if isinstance(key[2], int)]
        wanted += [name for name in ranges.domains.values() if isinstance(name, int)]
        wanted += [content for content in ranges.payloads if isinstance(content, int)]
        found = database.texts([number for number in wanted if number != MISSING])
        for table in tables:
            table.texts = [
                key[1] if key[0] == "text" else found.get(key[1], "") for key in table.names
            ]
        named = [range_name(key, ranges, found) for key in ranges.rows.names]
        ranges.rows.texts = [name.shown for name in named]
        schemas = PayloadSchemas.of(database)
        return cls(named, [schemas.members(content, found) for content in ranges.payloads])

    def is_operator(self) -> Bool:
        """Return which names of ranges are those of operators, bool."""
        return np.array([name.is_operator for name in self.ranges] or [False], np.bool_)

    def is_nccl(self) -> Bool:
        """Return which names of ranges are of NCCL's domain, bool."""
        return np.array([name.domain == NCCL for name in self.ranges] or [False], np.bool_)

    def finish(self, tables: Sequence[TableRows], further: Iterable[str]) -> Strings:
        """Return all texts, sorted; set the final ids of the tables' names."""
        ordered = sorted({*further, *(text for table in tables for text in table.texts)})
        self.ids = {text: index for index, text in enumerate(ordered)}
        for table in tables:
            # The text of an unknown string id is empty; a missing id has no text.
            ids = [
                MISSING if key == ("id", MISSING) else self.ids[text]
                for key, text in zip(table.names, table.texts, strict=True)
            ]
            table.final = np.array(ids, np.int32)
        return Strings.of(ordered)
