"""The configuration of a run, by field of the card: its sources merged, and their conflicts.

Groups in the traces have precedence, then the output of the program, its arguments, its
configuration file, the card; values of the user replace them. An argument that replaces a value of
the configuration file is no conflict, because that is the purpose of arguments. A card with another
value than that of the run is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec import field as struct_field

from ccltui.metrics.model.dimensions import Degrees, axis_of_description
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.parsers.discovery.run_settings import DEGREES, RunSource
from ccltui.parsers.safe_text import printable

if TYPE_CHECKING:
    from ccltui.parsers.columns import RankTrace
    from ccltui.parsers.job import Job
    from ccltui.parsers.side.workload_card import Card


MESH: Final = ("dp_replicate", "dp_shard", "tp", "pp", "cp")
"""Degrees whose product is the world size; ``ep`` lies across them."""
WORLD: Final = "world_size"
PLAIN_AXES: Final = ("tp", "pp", "cp")
"""Degrees that are the sizes of the groups that their descriptions name."""
PARALLEL: Final = frozenset({*DEGREES, WORLD})
BATCHES: Final = frozenset({*PARALLEL, "seq_len", "batch_size"})
PIPELINE: Final = frozenset({*PARALLEL, "pp_microbatches"})

_ORIGINS: Final = {
    "traces": "trace",
    "program": "log",
    "arguments": "launch_arguments",
    "config": "train_config",
}
_LOCAL: Final = "local_batch"
_GLOBAL: Final = "global_batch"


class Conflict(Struct, frozen=True):
    """Two sources that state different values of a field, in one sentence."""

    field: str
    message: str


class EffectiveValue(Struct, frozen=True):
    """A value that replaces that of the card, None where it is unknown, and its origin."""

    value: int | str | None
    origin: str


class RunConfig(Struct, frozen=True):
    """Values of a run by field of the card, without those that equal the card, and conflicts."""

    values: Mapping[str, EffectiveValue] = struct_field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()

    def of(self, fields: frozenset[str]) -> tuple[Conflict, ...]:
        """Return the conflicts about ``fields``."""
        return tuple(one for one in self.conflicts if one.field in fields)


def config_of(job: Job) -> RunConfig:
    """Merge the card of a job, the files of its run and the groups of its traces."""
    known = job.card is not None or job.run_sources
    traced = traced_degrees(job.ranks) if known else ()
    return run_config(job.card, (*traced, *job.run_sources), job.world_size)


def run_config(
    card: Card | None, sources: Sequence[RunSource], world_size: int | None = None
) -> RunConfig:
    """Merge the card and all sources on a run.

    Args:
        card: the card, None without one.
        sources: files and logs of the run in order of precedence.
        world_size: number of ranks of the traces, None where unknown.
    """
    return _Merging(card, sources, world_size).merged()


def traced_degrees(ranks: Iterable[RankTrace]) -> tuple[RunSource, ...]:
    """Return the degrees that the groups of the traces show, as a source; () where they show none.

    Of tp, pp and cp: a group whose description names one of them has as many ranks as its degree.
    Groups of data parallelism may span other axes too. Groups of one rank, and those of several
    sizes (tensor parallelism inside and outside of experts) show nothing.
    """
    sizes: dict[str, set[int]] = {}
    for group in {group for trace in ranks for group in trace.process_groups}:
        axis = axis_of_description(group.description)
        size = len(set(group.ranks)) or group.size
        if axis in PLAIN_AXES and size is not None and size > 1:
            sizes.setdefault(axis, set()).add(size)
    values = {axis: found.pop() for axis, found in sizes.items() if len(found) == 1}
    return (
        (RunSource("traces", f"groups of {' and '.join(sorted(values))}", "", values),)
        if values
        else ()
    )


def origin_of(source: RunSource) -> str:
    """Return the name of a source in the provenance of a value."""
    return _ORIGINS[source.standing]


def _statement(source: RunSource, name: str, value: int) -> str:
    source_text = f"{_SOURCE_NAMES[source.standing]} ({printable(source.path)})"
    if name in source.implied:
        return f"{source_text} leaves {name} at {value}"
    verb = "state" if source.standing == "traces" else "states"
    return f"{source_text} {verb} {_SHOWN.get(name, name)} {value}"


_SOURCE_NAMES: Final = {
    "traces": "the traces",
    "program": "what the run wrote",
    "arguments": "the launch",
    "config": "the configuration",
}
_SHOWN: Final = {
    "local_batch": "local_batch_size",
    "global_batch": "global_batch_size",
    "micro_batch": "pipeline_parallel_microbatch_size",
}


class _Merging:
    def __init__(
        self, card: Card | None, sources: Sequence[RunSource], world_size: int | None
    ) -> None:
        self.card = card
        self.sources = sources
        self.best = dict(self._best())
        self.values: dict[str, EffectiveValue] = {}
        self.conflicts: list[Conflict] = []
        self.traced = world_size
        self.world = world_size or self._number(WORLD) or self._stated("total_count")

    def merged(self) -> RunConfig:
        """Merge the fields in order: batch sizes depend on degrees."""
        self._compare_sources()
        self._world_size()
        degrees = self._degrees()
        if "seq_len" in self.best:
            self._take("seq_len", *self.best["seq_len"])
        self._batches(degrees)
        self._micro_batches(degrees)
        return RunConfig(self.values, tuple(self.conflicts))

    def _best(self) -> Iterator[tuple[str, tuple[int, RunSource]]]:
        """First source of each field; an automatic batch size (not above 0) is not stated."""
        names = dict.fromkeys(name for source in self.sources for name in source.values)
        for name in names:
            value, source = self._all_of(name)[0]
            if value > 0 or name == "dp_shard":
                yield name, (value, source)

    def _all_of(self, name: str) -> list[tuple[int, RunSource]]:
        """All sources of a field, without a configuration file that an argument replaces."""
        found = [(one.values[name], one) for one in self.sources if name in one.values]
        if any(one.standing == "arguments" for _, one in found):
            found = [(value, one) for value, one in found if one.standing != "config"]
        return found

    def _number(self, name: str) -> int | None:
        value = self.best[name][0] if name in self.best else 0
        return value if value > 0 else None

    def _stated(self, name: str) -> int | None:
        return None if self.card is None else self.card.count(name)

    def _compare_sources(self) -> None:
        """Find conflicts between files of the run."""
        for name, (value, first) in self.best.items():
            for other, source in self._all_of(name)[1:]:
                if value > 0 and other > 0 and other != value and name != WORLD:
                    text = f"{_statement(first, name, value)}, {_statement(source, name, other)}"
                    self._conflict(_FIELDS.get(name, name), f"{text}: {value} is taken")

    def _world_size(self) -> None:
        """Merge the world size: that of the traces, else that of the files of the run."""
        world = self.traced or self._number(WORLD)
        who = "the traces state" if self.traced else "another file of the run states"
        for value, source in self._all_of(WORLD):
            if world and value > 0 and value != world:
                self._conflict(WORLD, f"{_statement(source, WORLD, value)}, {who} {world}")
        stated = self._stated("total_count")
        if world and stated is not None and stated != world:
            origin = "trace" if self.traced else origin_of(self.best[WORLD][1])
            self.values["total_count"] = EffectiveValue(world, origin)
            text = f"{self._card_statement('total_count', stated)}, {who} {WORLD} {world}"
            self._conflict(WORLD, f"{text}: {world} is taken")

    def _degrees(self) -> dict[str, int | None]:
        """Degrees of the run; those of the card where no file of the run states them."""
        found = {name: self._number(name) or self._stated(name) for name in DEGREES}
        stated = [name for name in MESH if name in self.best]
        if not stated:
            return found
        if "dp_shard" in self.best and self.best["dp_shard"][0] < 1:
            found["dp_shard"] = self._rest(found)
        self._drop_degrees_of_other_runs(found, stated)
        for name in (*stated, *(["ep"] if "ep" in self.best else [])):
            value = found[name]
            if value is not None:
                self._take(name, value, self.best[name][1])
        return found

    def _rest(self, degrees: Mapping[str, int | None]) -> int | None:
        others = prod(degrees[name] or 1 for name in MESH if name != "dp_shard")
        return None if not self.world or self.world % others else self.world // others

    def _drop_degrees_of_other_runs(
        self, degrees: dict[str, int | None], stated: Sequence[str]
    ) -> None:
        """Drop degrees of the card whose product with those of the run is not the world size."""
        product = prod(degrees[name] or 1 for name in MESH)
        if not self.world or product == self.world:
            return
        source = self.best[stated[0]][1]
        stale = [name for name in MESH if name not in stated and (degrees[name] or 1) > 1]
        if not stale:
            factors = " · ".join(f"{name} {degrees[name] or 1}" for name in MESH)
            text = (
                f"the degrees that ran multiply to {product} ({factors}; {printable(source.path)})"
            )
            if product > self.world or all(degrees[name] for name in MESH):
                self._conflict(WORLD, f"{text}, the world has {self.world} ranks")
            return
        changed = " and ".join(
            _statement(self.best[name][1], name, degrees[name] or 1) for name in stated
        )
        for name in stale:
            says = self._card_statement(name, degrees[name])
            text = f"{says}, which does not fit {self.world} ranks where {changed}"
            self._conflict(name, f"{text}: it is not taken")
            self.values[name] = EffectiveValue(None, origin_of(source))
            degrees[name] = None

    def _batches(self, degrees: Mapping[str, int | None]) -> None:
        """Merge the batch size, of the job or of a data-parallel rank by the card's scope."""
        local, whole = self.best.get(_LOCAL), self.best.get(_GLOBAL)
        full = Degrees(**degrees).completed(self.world)
        replicas = None if full is None else (full.dp_replicate or 1) * (full.dp_shard or 1)
        made = None if replicas is None or local is None else local[0] * replicas * self._passes()
        stated = self._stated("batch_size")
        is_global = self.card is not None and self.card.batch_size_scope == "global"
        if whole is not None and (is_global or stated is None):
            self._take("batch_size", *whole, key=_GLOBAL)
        elif is_global and made is not None and local is not None and stated != made:
            how = f"{_statement(local[1], _LOCAL, local[0])} on {replicas} data-parallel ranks"
            says = self._card_statement("batch_size", stated)
            self._conflict("batch_size", f"{says}, {how}: {made} is taken")
            self.values["batch_size"] = EffectiveValue(made, origin_of(local[1]))
        elif local is not None and not is_global:
            self._take("batch_size", *local, key=_LOCAL)
        self._scope(stated, replicas, is_global=is_global)

    def _scope(self, stated: int | None, replicas: int | None, *, is_global: bool) -> None:
        """Set the batch scope; a stated batch of the job includes gradient accumulation."""
        local = self._number(_LOCAL) or stated
        if _GLOBAL in self.best and not is_global:
            value, source = self.best[_GLOBAL]
            if replicas is None or local is None or local * replicas != value:
                self.values["batch_size"] = EffectiveValue(value, origin_of(source))
                self.values["batch_size_scope"] = EffectiveValue("global", origin_of(source))
        elif stated is None and "batch_size" in self.values and not is_global:
            self.values["batch_size_scope"] = EffectiveValue(
                "local", self.values["batch_size"].origin
            )

    def _passes(self) -> int:
        return self._number("gradient_accumulation") or 1

    def _micro_batches(self, degrees: Mapping[str, int | None]) -> None:
        local, micro = self.best.get(_LOCAL), self.best.get("micro_batch")
        if local is None or micro is None or (degrees["pp"] or 1) < 2 or local[0] < micro[0]:
            return
        stated, made = self._stated("pp_microbatches"), local[0] // micro[0]
        if stated == made:
            return
        self.values["pp_microbatches"] = EffectiveValue(made, origin_of(local[1]))
        if stated is not None:
            says = self._card_statement("pp_microbatches", stated)
            how = f"{_statement(local[1], _LOCAL, local[0])} in micro-batches of {micro[0]}"
            self._conflict("pp_microbatches", f"{says}, {how}: {made} is taken")

    def _take(self, name: str, value: int, source: RunSource, key: str = "") -> None:
        """Store a value of the run; a conflict where the card states another."""
        stated = self._stated(name)
        if stated == value:
            return
        self.values[name] = EffectiveValue(value, origin_of(source))
        if stated is not None:
            says = f"{self._card_statement(name, stated)}, {_statement(source, key or name, value)}"
            self._conflict(name, f"{says}: {value} is taken")

    def _card_statement(self, name: str, value: object) -> str:
        place = name if self.card is None else self.card.provenance(name)
        return f"the card states {name} {printable(str(value))} ({place})"

    def _conflict(self, name: str, message: str) -> None:
        self.conflicts.append(Conflict(name, message))


_FIELDS: Final = {
    _LOCAL: "batch_size",
    _GLOBAL: "batch_size",
    "gradient_accumulation": "batch_size",
    "micro_batch": "pp_microbatches",
}
"""Field of the card that follows from a field of a source."""


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
