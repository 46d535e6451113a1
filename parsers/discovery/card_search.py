"""Find the workload card of a directory that describes a capture."""

from __future__ import annotations

import re

from ccltui.parsers.card import WORKLOAD_CARD
from ccltui.parsers.errors import CardError
from ccltui.parsers.found_files import Capture, Discovery, FoundFile
from ccltui.parsers.names import listed, printable
from ccltui.parsers.text.file_heads import read_head


def find_card(discovery: Discovery, capture: Capture | None = None) -> str | None:
    """Return the path to open of the card that describes ``capture``; None without one.

    The nearest folder that holds the capture's traces and a card decides; failing that, the card
    nearest to the root. Of several cards in one place, the one with both ``workload:`` and
    ``metric_source:``. Raises CardError when several remain.
    """
    found = card_file(discovery, capture)
    return None if found is None else found.real_path


def card_file(discovery: Discovery, capture: Capture | None = None) -> FoundFile | None:
    """Return the file whose path :func:`find_card` returns."""
    cards = [
        file
        for file in discovery.files
        if file.format is WORKLOAD_CARD and file.problem is None and file.duplicate_of is None
    ]
    folders = [] if capture is None else [_folders(file) for file in capture.files]
    shared = min(folders, default=[], key=len)
    for depth in range(len(shared), -1, -1):
        above = shared[:depth]
        here = [card for card in cards if _folders(card) == above]
        if here and all(folder[:depth] == above for folder in folders):
            return _only_one(discovery, here)
    if not cards:
        return None
    nearest = min(len(_folders(card)) for card in cards)
    return _only_one(discovery, [card for card in cards if len(_folders(card)) == nearest])


def _folders(file: FoundFile) -> list[str]:
    return file.path.split("/")[:-1]


def _only_one(discovery: Discovery, cards: list[FoundFile]) -> FoundFile:
    if len(cards) > 1:
        cards = [card for card in cards if _is_full(card)] or cards
    if len(cards) > 1:
        names = listed([card.path for card in cards])
        message = f"several workload cards, and no telling which counts: {names}"
        raise CardError(message, path=printable(discovery.root))
    return cards[0]


def _is_full(card: FoundFile) -> bool:
    from ccltui.parsers.text.yaml_tree import MAX_BYTES  # noqa: PLC0415  (yaml, for cards only)

    try:
        text = read_head(card.real_path, MAX_BYTES).data
    except OSError:
        return False
    return all(
        re.search(rb"^[\"']?" + key + rb"[\"']?\s*:", text, re.MULTILINE)
        for key in (b"workload", b"metric_source")
    )
