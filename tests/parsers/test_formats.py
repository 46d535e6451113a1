"""Declarations name functions of readers as text: each exists and takes what it is called with."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator

import pytest

from ccltui.parsers.format import Converter, PreviewReader, Reader, ReadOptions, RecordReader
from ccltui.parsers.formats import FORMATS

PROTOCOLS: dict[str, type] = {
    "read": Reader,
    "preview": PreviewReader,
    "read_record": RecordReader,
    "to_sqlite": Converter,
}


def declared() -> Iterator[tuple[str, str]]:
    for one in FORMATS:
        for field in (*PROTOCOLS, "add_companion", "unfinished"):
            function: Callable[..., object] | None = getattr(one, field)
            if function is not None and ":" in function.__qualname__:
                yield field, function.__qualname__


@pytest.mark.parametrize(("field", "name"), sorted(set(declared())))
def test_a_function_that_is_named_takes_the_arguments_of_its_field(field: str, name: str) -> None:
    module, _, function = name.partition(":")
    parameters = inspect.signature(getattr(importlib.import_module(module), function)).parameters
    taken = set(parameters)
    if any(one.annotation == "Unpack[ReadOptions]" for one in parameters.values()):
        taken |= set(ReadOptions.__annotations__)

    called = inspect.signature(PROTOCOLS[field].__call__).parameters if field in PROTOCOLS else {}

    assert set(called) - taken - {"self"} == set()


def test_every_reader_of_this_package_is_named_as_text() -> None:
    assert [
        one.kind for one in FORMATS if one.read and ":" not in getattr(one.read, "__qualname__", "")
    ] == []
