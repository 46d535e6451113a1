"""Exit status of a report, and the messages about missing numbers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from msgspec.structs import replace as with_field

from ccltui.commands.measure import Measured
from ccltui.metrics.registry import find
from ccltui.metrics.result import Reason, Result, Status
from ccltui.report.json_document import TraceSummary

METRIC = find("coll_call_num")


def measured(value: int | None, status: Status, *, named: bool) -> Measured:
    reasons = () if status == "ok" else (Reason("no_message_size", "no size"),)
    refused = METRIC.unavailable(Reason("no_message_size", "no size"))
    result: Result = replace(refused, value=value, status=status, reasons=reasons)
    required = frozenset({METRIC.name} if named else ())
    return Measured(TraceSummary("x"), ((METRIC, result), (METRIC, found())), required=required)


def found() -> Result:
    return replace(METRIC.unavailable(Reason("no_trace", "")), value=1, status="ok", reasons=())


@pytest.mark.parametrize(
    ("value", "status", "code", "said"),
    [
        (7, "ok", 0, ""),
        (7, "partial", 0, "ccltui: coll_call_num is partial: no size\n"),
        (None, "ok", 0, ""),  # there was nothing to report
        (None, "partial", 3, "ccltui: coll_call_num has no value: no size\n"),
        (None, "unavailable", 3, "ccltui: coll_call_num is unavailable: no size\n"),
    ],
)
def test_a_number_asked_for_by_name_that_is_missing_is_3(
    value: int | None, status: Status, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measured(value, status, named=True).exit_status == code
    assert measured(value, status, named=False).exit_status == 0

    measured(value, status, named=True).print_messages(warnings=False)

    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("num_lost", "code"),
    [
        (0, 0),  # damaged files make numbers partial, which is an answer
        (1, 1),  # nobody could look at it: no room, no memory, no descriptor
    ],
)
def test_a_file_that_could_not_be_inspected_is_1(num_lost: int, code: int) -> None:
    summary = TraceSummary("x", ranks=1, failures=(("a", "a: why"),), num_lost=num_lost)

    assert Measured(summary, ((METRIC, found()),)).exit_status == code
    assert Measured(with_field(summary, complete=False), ((METRIC, found()),)).exit_status == 130
