"""``ibstat``: the ports of the InfiniBand and RoCE cards of a host."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ccltui.parsers.errors import TraceError
from ccltui.parsers.names import printable
from ccltui.parsers.text.bounded_text import read_bounded
from ccltui.parsers.text.json_fields import finite

_BYTES: Final = 1 << 22
_CARD: Final = re.compile(r"^CA '([^'\n]{1,80})'", re.MULTILINE)
_PORT: Final = re.compile(r"^\s*Port (\d{1,3}):\s*$", re.MULTILINE)
_FIELD: Final = re.compile(r"^\s*([A-Z][\w ]{0,40}):[ \t]*([^\n]{0,120})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class IbPort:
    """One port; ``rate_gbps`` is its rate in Gbit/s, as negotiated."""

    card: str
    card_type: str
    firmware: str
    port: int
    state: str
    physical_state: str
    rate_gbps: float | None
    link_layer: str

    @property
    def is_up(self) -> bool:
        """Whether data can flow."""
        return self.state.lower() == "active" and self.physical_state.lower() == "linkup"


def read_ib_status(path: Path, *, shown: str) -> tuple[IbPort, ...]:
    """Every port. Raises TraceError for a file that cannot be read or names no card."""
    text = read_bounded(path, shown=shown, head_bytes=_BYTES, tail_bytes=0).plain_head
    cards = list(_CARD.finditer(text))
    if not cards:
        raise TraceError("names no card: this is no output of ibstat", path=shown, line=1)
    ports: list[IbPort] = []
    for number, card in enumerate(cards):
        end = cards[number + 1].start() if number + 1 < len(cards) else len(text)
        ports += _ports(card[1], text[card.end() : end])
    return tuple(ports)


def _ports(card: str, text: str) -> list[IbPort]:
    begins = list(_PORT.finditer(text))
    of_card = _fields(text[: begins[0].start()] if begins else text)
    found = []
    for number, begin in enumerate(begins):
        end = begins[number + 1].start() if number + 1 < len(begins) else len(text)
        fields = _fields(text[begin.end() : end])
        found.append(
            IbPort(
                card=printable(card),
                card_type=of_card.get("CA type", ""),
                firmware=of_card.get("Firmware version", ""),
                port=int(begin[1]),
                state=fields.get("State", ""),
                physical_state=fields.get("Physical state", ""),
                rate_gbps=finite((fields.get("Rate", "").split() or [""])[0]),
                link_layer=fields.get("Link layer", ""),
            )
        )
    return found


def _fields(text: str) -> dict[str, str]:
    return {match[1]: printable(match[2].strip()) for match in _FIELD.finditer(text)}
