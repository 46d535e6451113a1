"""What the workload card states, or the user or the run in its place, and which of them it was."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from ccltui.metrics.model.dimensions import Degrees
from ccltui.metrics.unavailable import Refusal, refuse

if TYPE_CHECKING:
    from ccltui.metrics.card.effective_config import Ran
    from ccltui.parsers.card.workload_card import Card

DEGREES = ("dp_replicate", "dp_shard", "tp", "pp", "cp", "ep")


class CardFacts:
    """Fields of the card, with what ran in place of them and the user's overrides on top."""

    def __init__(
        self,
        card: Card | None,
        problem: str | None,
        overrides: Mapping[str, object],
        ran: Mapping[str, Ran] | None = None,
    ) -> None:
        self.card = card
        self.problem = problem
        self.overrides = overrides
        self.ran = dict(ran or {})
        if "batch_size" in overrides:
            self.ran.pop("batch_size_scope", None)  # it is the scope of the size that ran

    def value(self, name: str) -> object | None:
        """The override, else what ran, else what the card states, else None."""
        if name in self.overrides:
            return self.overrides[name]
        if name in self.ran:
            return self.ran[name].value
        return getattr(self.card, name, None)

    def number(self, name: str) -> int | None:
        """A whole number. Refuses an override that is none."""
        value = self.value(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if name not in self.overrides or value is None:
            return None
        try:
            return int(str(value))
        except ValueError:
            raise refuse("card_invalid", f"{name} = {value!r} is not a whole number") from None

    def count(self, name: str) -> int | None:
        """A whole number above 0, None where it is not stated. Refuses another, of card or user."""
        found = self.number(name)
        if found is not None and found < 1:
            raise refuse("card_invalid", f"{name} = {found} is not above 0")
        return found

    def text(self, name: str) -> str:
        """A text, "" where absent."""
        value = self.value(name)
        return "" if value is None else str(value)

    def origin(self, name: str) -> str | None:
        """Who states the field, None where nobody does.

        "override", "card", or the source of what ran in its place: "log", "launch_arguments",
        "train_config" or "trace".
        """
        if name in self.overrides:
            return "override"
        if name in self.ran and self.ran[name].value is not None:
            return self.ran[name].origin
        return None if self.value(name) is None else "card"

    def provenance(self, *names: str) -> dict[str, str]:
        """Origin of each field that is stated."""
        found = {name: self.origin(name) for name in names}
        return {name: origin for name, origin in found.items() if origin is not None}

    @cached_property
    def degrees(self) -> Degrees:
        """Parallel degrees, None where not stated or not a number (see `require_degrees`)."""
        found: dict[str, int | None] = {}
        for name in DEGREES:
            try:
                found[name] = self.number(name)
            except Refusal:
                found[name] = None
        return Degrees(**found)

    def require_degrees(self) -> None:
        """Refuse an override of a degree that is no whole number."""
        for name in DEGREES:
            self.number(name)
