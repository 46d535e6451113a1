"""Fields of the workload card, replaced by those of the run and of the user, with their origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ccltui.metrics.model.dimensions import Degrees
from ccltui.metrics.unavailable import Refusal, refuse

if TYPE_CHECKING:
    from ccltui.metrics.card.effective_config import EffectiveValue
    from ccltui.parsers.card.workload_card import Card

DEGREES = ("dp_replicate", "dp_shard", "tp", "pp", "cp", "ep")


class CardFacts:
    """Fields of the card; values of the run replace them, and overrides of the user replace both.

    Args:
        card: the card, None without one.
        problem: why the card is not used, None where it is.
        overrides: values of the user by field.
        effective: values of the run by field.
    """

    def __init__(
        self,
        card: Card | None,
        problem: str | None,
        overrides: Mapping[str, object],
        effective: Mapping[str, EffectiveValue] | None = None,
    ) -> None:
        self.card = card
        self.problem = problem
        self.overrides = overrides
        self.effective = dict(effective or {})
        if "batch_size" in overrides:
            self.effective.pop(
                "batch_size_scope", None
            )  # this is the scope of the size of the run, which the override replaces

    def value(self, name: str) -> object | None:
        """Return the override, else the value of the run, else that of the card, else None."""
        if name in self.overrides:
            return self.overrides[name]
        if name in self.effective:
            return self.effective[name].value
        return getattr(self.card, name, None)

    def number(self, name: str) -> int | None:
        """Return a field as an integer, None where it is not one.

        Raises:
            Refusal: an override is no integer.
        """
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
        """Return a field as an integer above 0, None where it is not stated.

        Raises:
            Refusal: the value of card or user is not above 0, or an override is no integer.
        """
        found = self.number(name)
        if found is not None and found < 1:
            raise refuse("card_invalid", f"{name} = {found} is not above 0")
        return found

    def text(self, name: str) -> str:
        """Return a field as text, "" where absent."""
        value = self.value(name)
        return "" if value is None else str(value)

    def lacking(self, names: Sequence[str]) -> Refusal:
        """Return the refusal for fields without a usable value: absent ones or wrong values."""
        named = " and ".join(names) if len(names) < 3 else ", ".join(names)
        if self.problem is not None:
            return refuse("card_invalid", self.problem)
        if self.card is None:
            return refuse("no_card", f"no workload card, and no --set for {named}")
        keys = [self.card.key_of(name) for name in names]
        wrong = [key for key in keys if isinstance(self.card.values.get(key), int | float | str)]
        if wrong:
            verb, noun = ("is", "a number") if len(wrong) == 1 else ("are", "numbers")
            text = f"{' and '.join(wrong)} of the card {verb} not {noun} that can be used"
            return refuse("card_invalid", text, file=self.card.path)
        lists = [key for key in keys if isinstance(self.card.values.get(key), tuple)]
        kind = " as a single number" if lists else ""
        text = f"the card does not state {named}{kind}"
        return refuse("card_incomplete", text, file=self.card.path)

    def origin(self, name: str) -> str | None:
        """Return the origin of a field, None where it is not stated.

        "override", "card", or the source of the value of the run: "log", "launch_arguments",
        "train_config" or "trace".
        """
        if name in self.overrides:
            return "override"
        if name in self.effective and self.effective[name].value is not None:
            return self.effective[name].origin
        return None if self.value(name) is None else "card"

    def provenance(self, *names: str) -> dict[str, str]:
        """Return the origin of each field that is stated."""
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
        """Refuse an override of a degree that is no integer.

        Raises:
            Refusal: an override is no integer.
        """
        for name in DEGREES:
            self.number(name)
