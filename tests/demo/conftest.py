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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests of one job behind each other, so that each worker opens only some of the jobs."""
    places = [place for place, item in enumerate(items) if job_of(item)]
    ordered = sorted((items[place] for place in places), key=job_of)
    for place, item in zip(places, ordered, strict=True):
        items[place] = item


def job_of(item: pytest.Item) -> str:
    """Name of the job of the family that a test is parametrized with; empty where it is not."""
    parameters = getattr(item, "callspec", None)
    return str(parameters.params.get("recovered", "")) if parameters else ""
