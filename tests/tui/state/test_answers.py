"""Queries: a kind without an answer is an error, not an empty answer."""

from __future__ import annotations

from typing import Any

import pytest

from ccltui.tui.state.answers import FileQuery, ViewQuery


class _OfView(ViewQuery[int], frozen=True):
    generation: int


class _OfFiles(FileQuery[int], frozen=True):
    generation: int


@pytest.mark.parametrize("query", [_OfView(1), _OfFiles(1)])
def test_a_query_that_does_not_say_how_it_is_answered_has_no_answer(query: Any) -> None:
    with pytest.raises(NotImplementedError):
        query.answer(None, None)
