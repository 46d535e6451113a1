"""Lines of text, each a sequence of pieces with one style."""

from __future__ import annotations

from typing import Final

Piece = tuple[str, int]
"""Cleaned text and its style id."""
Line = list[Piece]

GAP: Final = "   "
