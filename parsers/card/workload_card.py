"""Read a workload card, the description of a job by the people who ran it.

Cards of all generations are converted to one set of keys. Who contributed a card and how to
reach them is personal: those values are dropped while reading.
"""

from __future__ import annotations

import re
from pathlib import Path

from ccltui.parsers.card.card_values import (
    COUNTS,
    FIELDS,
    PERSONAL,
    Card,
    Place,
    as_count,
    as_text,
    is_known,
    is_section,
)
from ccltui.parsers.columns import Note
from ccltui.parsers.errors import CardError
from ccltui.parsers.names import listed, printable
from ccltui.parsers.text import yaml_tree
from ccltui.parsers.text.yaml_tree import Node, Pair, load_yaml, read_bytes

__all__ = ["Card", "read_card"]

_SECTIONS = frozenset({"workload", "metric_source", "model_executor"})


def read_card(path: Path, *, shown_path: str | None = None) -> Card:
    """Read one card; CardError with file, line and column when it is no valid card."""
    where = shown_path or printable(str(path))
    root = load_yaml(read_bytes(path, where), where)
    if not isinstance(root, yaml_tree.Mapping):
        raise CardError("not a workload card: it has no keys", path=where, line=1, column=1)
    if not any(_normalised(pair.key) in _SECTIONS for pair in root.pairs):
        message = "not a workload card: neither `workload:` nor `metric_source:`"
        raise CardError(message, path=where, line=root.mark.line, column=root.mark.column)
    reading = _Reading(where)
    reading.walk(root, "", "")
    card = Card(
        where,
        dict(sorted(reading.values.items())),
        tuple(sorted(key for key in reading.values if not is_known(key))),
        tuple(reading.notes),
        reading.places,
    )
    notes = (*card.notes, *_unusable(card), *_unknown(card))
    return Card(card.path, card.values, card.unknown_keys, notes, card.places)


def _normalised(key: str) -> str:
    return re.sub(r"[-\s]", "_", key.strip().lower())


class _Reading:
    """Flatten the tree; the same key under two spellings must agree."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.values: dict[str, object] = {}
        self.places: dict[str, Place] = {}
        self.notes: list[Note] = []

    def walk(self, mapping: yaml_tree.Mapping, prefix: str, written_prefix: str) -> None:
        """Take every leaf below ``mapping``; ``written_prefix`` is its path in the file."""
        for pair in mapping.pairs:
            # Names of environment variables stay as they are.
            key = pair.key if prefix.endswith(".env.") else _normalised(pair.key)
            if key in PERSONAL:
                continue
            name, written = prefix + key, written_prefix + key
            if name == "workload.model_executor":
                name = "model_executor"
            if isinstance(pair.node, yaml_tree.Mapping) and pair.node.pairs:
                self.walk(pair.node, f"{name}.", f"{written}.")
            elif name in _SECTIONS and not _is_empty(pair.node):
                self._fail(f"`{printable(pair.key)}:` holds no keys", pair)
            elif not (_is_empty(pair.node) and is_section(name)):
                self._put(name, written, pair)

    def _put(self, name: str, written: str, pair: Pair) -> None:
        value = _plain(pair.node)
        if name in self.values and self.values[name] != value:
            line = self.places[name][1]
            self._fail(f"{printable(name)} contradicts the value in line {line}", pair)
        if name in self.values:
            self.notes.append(
                Note("card_repeated", f"{printable(name)} is given twice, with the same value")
            )
            return
        text = pair.node.text if isinstance(pair.node, yaml_tree.Scalar) else ""
        self.values[name] = value
        self.places[name] = (written, pair.mark.line, text)

    def _fail(self, message: str, pair: Pair) -> None:
        raise CardError(message, path=self.path, line=pair.mark.line, column=pair.mark.column)


def _is_empty(node: Node) -> bool:
    if isinstance(node, yaml_tree.Scalar):
        return node.value is None or node.value == ""
    return node.size == 1


def _plain(node: Node) -> object:
    if isinstance(node, yaml_tree.Scalar):
        return node.value
    if isinstance(node, yaml_tree.Sequence):
        return tuple(_plain(item) for item in node.items)
    pairs = {_normalised(pair.key): pair.node for pair in node.pairs}
    return {key: _plain(inner) for key, inner in pairs.items() if key not in PERSONAL}


def _unusable(card: Card) -> list[Note]:
    notes = []
    for name in FIELDS:
        key = card.key_of(name)
        value = card.values.get(key)
        if value is None or (as_text(value) is None and not isinstance(value, (tuple, dict))):
            continue
        if name == "batch_size" and isinstance(value, tuple):
            why = "is a list, a sweep of several runs: the card does not state which one this is"
        elif name in COUNTS and as_count(value) is None:
            why = "is not a positive whole number"
        elif name in ("phase", "moe") and getattr(card, name) is None:
            why = (
                "is not training, inference or serving"
                if name == "phase"
                else "is not true or false"
            )
        elif isinstance(value, (tuple, dict)):
            why = "is a list or mapping, not a text"
        else:
            continue
        notes.append(Note("card_value", f"{card.provenance(name)} {why}"))
    return notes


def _unknown(card: Card) -> list[Note]:
    if not card.unknown_keys:
        return []
    keys = [printable(key) for key in card.unknown_keys]
    verb = "is" if len(keys) == 1 else "are"
    return [Note("card_unknown_keys", f"{listed(keys)} {verb} not known here", count=len(keys))]
