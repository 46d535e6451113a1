"""``ccltui inspect``: one event as text and as JSON, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

from shell import CCLTUI
from warm_shell import run


def test_an_event_with_its_related_events(job: Path) -> None:
    done = run(CCLTUI, "inspect", job, "--rank", "1", "--name", "nccl", "--nth", "2")

    assert (done.returncode, done.stderr) == (0, "")
    first, _, heading, *lines = done.stdout.splitlines()
    assert first.startswith("rank 1 gpu ")
    assert heading.split() == ["fact", "value"]
    for name in ("start", "duration", "launch call", "queue delay", "message size"):
        assert any(line.startswith(f"{name} ") for line in lines)
    assert any(line.startswith("next ") for line in lines)


def test_the_row_of_a_related_event_is_that_event(job: Path) -> None:
    found = json.loads(run(CCLTUI, "inspect", job, "--format", "json").stdout)
    (launch,) = [link for link in found["links"] if link["relation"] == "launch"]
    call = run(
        *(CCLTUI, "inspect", job, "--rank", launch["rank"], "--kind", launch["group"]),
        *("--row", str(launch["row"]), "--format", "json"),
    )

    document = json.loads(call.stdout)
    assert (document["name"], document["start_ns"]) == (launch["name"], launch["start_ns"])
    facts = {fact["name"]: fact for fact in document["facts"]}
    assert facts["correlation"]["value"] == next(
        fact["value"] for fact in found["facts"] if fact["name"] == "correlation"
    )


def test_what_does_not_exist_is_one_line(job: Path) -> None:
    for wrong, why in (
        (("--rank", "99"), "no rank '99'"),
        (("--name", "no such kernel"), "no event of gpu whose name matches"),
        (("--name", "("), "no regular expression"),
        (("--row", "99999999"), "no event 99999999"),
        (("--nth", "99999999"), "events of rank 0 match"),
    ):
        done = run(CCLTUI, "inspect", job, *wrong)

        assert (done.returncode, done.stdout) == (2, "")
        assert why in done.stderr
        assert len(done.stderr.splitlines()) == 1
