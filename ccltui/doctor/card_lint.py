"""Check a workload card by itself, against the traces and against the configuration."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from ccltui.metrics.card.card_check import contradictions
from ccltui.metrics.card.card_config import check_config
from ccltui.parsers.card.card_values import known_keys
from ccltui.parsers.names import listed, printable

if TYPE_CHECKING:
    from ccltui.parsers.card.workload_card import Card
    from ccltui.parsers.job import Job
    from ccltui.parsers.runs.run_records import TrainConfig

_USED: Final = {
    "throughput_tokens": ("batch_size", "seq_len"),
    "mfu": ("num_params", "num_params_embedding", "num_layers", "num_heads", "head_dim"),
}
"""Metric -> fields of the card without which it is unavailable."""


class Complaint(Struct, frozen=True):
    """One problem of a card; ``line`` is the line in the card, None if not a single one."""

    level: Literal["error", "warning"]
    line: int | None
    message: str


def lint(card: Card, job: Job | None, config: TrainConfig | None) -> tuple[Complaint, ...]:
    """Check a card; return complaints, errors first, each group in the order of the checks.

    Contradictions and unusable values are errors; unknown keys and fields that metrics need are
    warnings. Raises ConfigError for a configuration with a value of the wrong type.
    """
    found = [*_values(card), *_contradictions(card, job, config), *_unknown(card), *_lacking(card)]
    return tuple(sorted(found, key=lambda complaint: complaint.level))


def _values(card: Card) -> Iterator[Complaint]:
    for note in card.notes:
        if note.code != "card_unknown_keys":
            level: Literal["error", "warning"] = "error" if note.code == "card_value" else "warning"
            yield Complaint(level, None, note.message)


def _contradictions(card: Card, job: Job | None, config: TrainConfig | None) -> Iterator[Complaint]:
    ranks, world_size = ((), None) if job is None else (job.ranks, job.world_size)
    for sentence in contradictions(card, ranks, world_size):
        yield Complaint("error", None, sentence)
    if config is not None:
        for sentence in check_config(card, config, world_size):
            yield Complaint("error", None, sentence)


def _unknown(card: Card) -> Iterator[Complaint]:
    known = known_keys()
    for key in card.unknown_keys:
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield Complaint("warning", card.line(key), f"{printable(key)} is not a known key{hint}")


def _is_stated(card: Card, field: str) -> bool:
    """True for a usable value and for an unusable one, which has an error of its own."""
    return getattr(card, field) is not None or card.values.get(card.key_of(field)) is not None


def _lacking(card: Card) -> Iterator[Complaint]:
    for metric, fields in _USED.items():
        absent = [field for field in fields if not _is_stated(card, field)]
        if absent:
            verb = "is" if len(absent) == 1 else "are"
            message = f"{listed(absent)} {verb} not stated: no {metric}"
            yield Complaint("warning", None, message)
