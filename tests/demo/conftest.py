"""A job that is opened once for all tests of its known values."""

from __future__ import annotations

import pytest
from recovery import FAMILY, Recovered, recover


@pytest.fixture(scope="session")
def opened() -> dict[str, Recovered]:
    """Jobs that were opened before in this run, by name."""
    return {}


@pytest.fixture
def recovered(
    request: pytest.FixtureRequest,
    opened: dict[str, Recovered],
    tmp_path_factory: pytest.TempPathFactory,
) -> Recovered:
    """The job of the family that the test is parametrized with."""
    name: str = request.param
    if name not in opened:
        opened[name] = recover(tmp_path_factory.mktemp("recovered"), FAMILY[name])
    return opened[name]
