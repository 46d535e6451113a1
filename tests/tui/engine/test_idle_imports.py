"""Modules that are imported once everything is computed."""

from __future__ import annotations

import sys

from ccltui.tui.engine.idle_work import OF_ANSWERS, OF_SCREEN, import_modules


def test_all_of_them_exist_and_are_there_afterwards() -> None:
    import_modules((*OF_SCREEN, *OF_ANSWERS))

    assert [name for name in (*OF_SCREEN, *OF_ANSWERS) if name not in sys.modules] == []
