"""Budgets of the explorer, from sessions as they are written down."""

from __future__ import annotations

import sys

import msgspec
from msgspec import structs

from bench.keys import KINDS, SIDE_KINDS, KeyRun, Pressed, Screen, heat_frame_ms, key_run
from bench.measure import Spread
from bench.results import Results, verdicts
from bench.tables import text_of

CHEAP = Pressed(120, 400, 12.0, 20.0, 5.0)
RUN = KeyRun(
    columns=120,
    events=10_000_000,
    splash_cpu_ms=40,
    paint_cpu_ms=290,
    loading=CHEAP,
    keys=dict.fromkeys((name for name, _, _ in KINDS), CHEAP),
    side=dict.fromkeys((name for name, _, _ in SIDE_KINDS), CHEAP),
    held_bytes=90_000,
    held_settled_ms=50,
    idle_bytes=0,
    resident_mib=194,
    of_files_mib=20,
    empty_mib=80,
)


def test_a_session_comes_back_from_what_a_child_prints() -> None:
    assert key_run(msgspec.to_builtins(RUN)) == RUN


def test_what_meets_every_budget() -> None:
    results = Results(machine={}, sessions={"8": RUN}, heat=Spread(3, 2, 4))

    found = {verdict.subject: verdict for verdict in verdicts(results)}

    assert all(verdict.met for verdict in found.values())
    assert len(found) == 15 + 4 + 3 + len(KINDS) + len(SIDE_KINDS) - 1
    assert round(found["8: memory an event"].measured, 3) == 11.954
    assert found["8: lanes: pan"].measured == 0.4
    assert found["heat of 1024 × 5,000, a frame"].goal == 10


def test_what_misses_and_what_a_wide_screen_may_cost() -> None:
    dear = structs.replace(CHEAP, bytes_most=9_000)
    run = structs.replace(RUN, keys={**RUN.keys, "lanes: pan": dear}, idle_bytes=1)
    wide = structs.replace(run, columns=200)
    results = Results(machine={}, sessions={"8": run, "wide": wide})

    missed = {verdict.subject for verdict in verdicts(results) if not verdict.met}

    assert missed == {"8: lanes: pan", "8: idle", "wide: idle"}


def test_every_key_has_a_bar_and_what_opens_has_a_stricter_one() -> None:
    slow = structs.replace(CHEAP, p50_ms=51.0, p95_ms=81.0)
    run = structs.replace(RUN, keys={**RUN.keys, "inspector": slow, "steps: row": slow})

    missed = {v.subject for v in verdicts(Results(machine={}, sessions={"8": run})) if not v.met}

    assert missed == {"8: inspector, p50", "8: inspector, p95", "8: steps: row, p95"}


def test_few_events_do_not_tell_what_an_event_takes() -> None:
    few = structs.replace(RUN, events=999_999)

    found = [verdict.subject for verdict in verdicts(Results(machine={}, sessions={"8": few}))]

    assert "8: memory an event" not in found


def test_the_table_names_keys_and_memory() -> None:
    text = text_of(Results(machine={}, sessions={"8": RUN}))

    assert "explorer, 8" in text
    assert "194 MiB resident, 20 of it pages of files; 80 MiB without a trace" in text
    assert "heat: next worst" in text


def test_frames_of_heat_are_timed_at_several_zooms() -> None:
    assert len(heat_frame_ms(8, 200, (80, 24))) == 25


def test_an_answer_that_begins_late_is_counted() -> None:
    code = (
        "import os, time, tty; tty.setraw(0); os.write(1, b'ready'); os.read(0, 1); "
        "time.sleep(0.3); os.write(1, b'x' * 50); time.sleep(60)"
    )
    screen = Screen([sys.executable, "-c", code], 80, 24)
    try:
        screen.wait_until(lambda rows: "ready" in rows[0])
        size, took_ms, _ = screen.press("k")
    finally:
        screen.close()

    assert size == 50
    assert took_ms >= 200
