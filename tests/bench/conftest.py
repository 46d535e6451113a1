"""Small files for the large inputs of the benchmarks to repeat."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from bench import make


@pytest.fixture(scope="package", autouse=True)
def small_sources() -> Iterator[None]:
    """The same jobs with fewer layers: what is tested is how they are repeated and read."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_RANK", "_OLD_RANK"):
            patch.setattr(make, name, replace(getattr(make, name), layers=2, micro_batches=2))
        yield
