"""Both decoders on every public trace: all columns and side tables are the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_real_kineto_walk import FILES

from ccltui.parsers.columns import CollectiveArgs, Events, RankTrace
from ccltui.parsers.errors import TraceError
from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.kineto.scanner import typed_event

pytestmark = pytest.mark.skipif(
    not typed_event.compiled(), reason="the scanner is not compiled here"
)


def read(path: Path, accelerated: str, monkeypatch: pytest.MonkeyPatch) -> RankTrace | str:
    """The trace, or why it is none."""
    monkeypatch.setenv("CCLTUI_ACCEL", accelerated)
    try:
        return read_kineto(path, chunk_bytes=300_007 if accelerated == "1" else 1 << 20)
    except TraceError as error:
        return str(error)


@pytest.mark.shared
@pytest.mark.parametrize("name", FILES or ["absent"])
def test_both_decoders_give_the_same_columns(
    shared: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(shared / name, "0", monkeypatch)
    trace = read(shared / name, "1", monkeypatch)
    if isinstance(expected, str) or isinstance(trace, str):
        assert trace == expected
        return

    assert list(trace.strings) == list(expected.strings)
    assert list(trace.events) == list(expected.events)
    for group, events in expected.events.items():
        for column, _ in (*Events.COLUMNS, *Events.SPARSE):
            np.testing.assert_array_equal(
                getattr(trace.group(group), column), getattr(events, column), f"{group} {column}"
            )
    for column, _ in CollectiveArgs.COLUMNS:
        np.testing.assert_array_equal(
            getattr(trace.collective_args, column), getattr(expected.collective_args, column)
        )
    for fact in ("tracks", "process_groups", "devices", "counts", "notes", "rank", "truncated"):
        assert getattr(trace, fact) == getattr(expected, fact)
