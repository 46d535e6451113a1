"""The explanation of a job: statements, their sources, and the size of the document."""

from __future__ import annotations

import json

from msgspec.structs import replace

from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.finding import Evidence, Finding, Recording, Where
from ccltui.metrics.result import Reason, Result
from ccltui.parsers.safe_text import safe_text
from ccltui.report.explanation import BUDGET, METRICS, explain, with_choice
from ccltui.report.explanation_writers import as_json, as_markdown
from ccltui.report.json_document import TraceSummary
from ccltui.report.overview_text import recorded, step_time

LAG = {"mean_lag_us": 5.0, "num_collectives": 3, "lag_aligned": {"mean_lag_us": 5.0}}
TRACE = TraceSummary("/jobs/one", ranks=8, world_size=8)


def result(name: str, details: dict[str, object], **rest: object) -> Result:
    stated = {"value": 1.0, "unit": "", "definition": "x", "status": "ok", **rest}
    return Result(metric=name, details=details, **stated)  # type: ignore[arg-type]


def slow_worker(**changes: object) -> Result:
    details = {
        "verdict": "slow_worker",
        "confidence": "high",
        "culprit": {"ranks": ["3"], "factor": 1.5},
        "loss_ms": 12.0,
        "loss_pct": 20.0,
        "saves_ms": 11.5,
        "shares": {"worker": 0.95, "host": 0.05, "step": 0.0},
        "also": [{"verdict": "host", "culprit": {"ranks": ["1"]}, "saves_ms": 0.5}],
        "ruled_out": [{"class": "slow_link", "why": "no pair transfers longer than its peers"}],
        "next": ["record launches"],
        "why": "rank 3 computes 1.5 times as long as its peers in all steps",
        **changes,
    }
    return result("verdict", details)


def finding(
    text: str = "Everyone waits for rank 3: 20 % of the time.", **changes: object
) -> dict[str, object]:
    return {
        **Finding(
            kind="waiting_for_rank",
            text=text,
            more="Its kernels take longer than those of its peers.",
            where=Where(ranks=("3",)),
            share=0.2,
            cost_ms=12.0,
            saves_ms=11.5,
            sure=Sure(what="high", who="medium", how_much="low"),
            evidence=(Evidence("fix_first", "losses.0.share", 0.2, "ratio"),),
            do="Compare its GPU with its peers.",
        ).to_dict(),
        **changes,
    }


def found_in(*rows: dict[str, object], **changes: object) -> Result:
    details = {
        "headline": rows[0]["text"],
        "recording": "ranks",
        "findings": list(rows),
        "unknown": ["One step alone."],
        **changes,
    }
    return result("findings", details)


def test_the_first_finding_is_the_first_sentence() -> None:
    copies = finding("Copies run while nothing computes.", do="Copy less.")
    results = {"findings": found_in(finding(), copies, copies), "verdict": slow_worker()}
    found = explain(TRACE, results)

    assert found.headline == "Everyone waits for rank 3: 20 % of the time."
    assert [one["text"] for one in found.findings][1:] == [copies["text"]] * 2
    assert found.actions == ("Compare its GPU with its peers.", "Copy less.")
    assert found.unknown == ("One step alone.",)
    assert found.verdict == "slow_worker"
    assert found.ruled_out == ("slow link: no pair transfers longer than its peers",)


def test_the_page_states_how_sure_each_part_of_a_finding_is() -> None:
    rows = finding(), finding("Copies run.")
    text = as_markdown(explain(TRACE, {"findings": found_in(*rows)})).decode()

    assert text.startswith("# /jobs/one\n\n**Everyone waits for rank 3: 20 % of the time.**\n\n1. ")
    assert " (Confidence: cause high, rank medium, saving low.)" in text
    assert "--metric findings --metric fix_first --detail" in text


def test_the_only_finding_is_not_said_twice_and_a_measurement_has_no_confidence() -> None:
    plain = finding("The devices compute 85 % of the time.", sure=Sure().to_dict())
    plain |= {"class": "compute_bound", "more": ""}
    text = as_markdown(explain(TRACE, {"findings": found_in(plain)})).decode()

    assert text.count(str(plain["text"])) == 1
    assert "Confidence" not in text


def test_several_recordings_are_a_table_before_the_findings_of_the_largest() -> None:
    rows = [
        Recording("big.json", 2, 3, "Everyone waits for rank 3."),
        Recording("small.json", 1, None, "Copies run."),
    ]
    found = with_choice(explain(TRACE, {"findings": found_in(finding())}), rows, "big.json")

    assert found.headline == (
        "The folder holds 2 separate recordings; the one opened is big.json: everyone waits for "
        "rank 3."
    )
    assert [one["class"] for one in found.findings] == ["choice", "waiting_for_rank"]
    text = as_markdown(found).decode()
    assert "   - big.json (2 ranks, 3 steps): Everyone waits for rank 3.\n" in text
    assert "   - small.json (1 rank): Copies run.\n" in text


def test_where_nothing_could_be_read_the_reason_is_the_headline() -> None:
    refused = result(
        "findings",
        {},
        value=None,
        status="unavailable",
        reasons=(Reason("truncated_trace", "rank0.json ends in the middle"),),
    )
    found = explain(TRACE, {"findings": refused})

    assert found.headline == "Nothing could be read: rank0.json ends in the middle."
    assert found.findings == ()
    assert found.missing == ("rank0.json ends in the middle (findings)",)
    assert explain(TRACE, {}).headline == "No findings were computed."


def test_where_nothing_is_selected_the_path_is_not_blamed() -> None:
    reason = Reason("window_empty", "no step 99; steps here: 2-4")
    refused = result("findings", {}, value=None, status="unavailable", reasons=(reason,))
    found = explain(TRACE, {"findings": refused}, ["--steps", "99"])

    assert found.headline == "Nothing is left: no step 99; steps here: 2-4."
    assert found.actions[0].startswith("Select what is there")


def test_a_damaged_file_is_not_called_a_wrong_selection() -> None:
    reason = Reason("truncated_trace", "rank0.json ends in the middle")
    refused = result("findings", {}, value=None, status="unavailable", reasons=(reason,))
    found = explain(TRACE, {"findings": refused}, ["--capture", "rank0.json"])

    assert found.headline.startswith("Nothing could be read: ")
    assert found.actions[0].startswith("Look at the files")


def test_more_traces_than_ranks_are_not_called_ranks() -> None:
    assert recorded(5, 4) == "5 traces of 4 ranks are read: some ranks have several."


def test_what_holds_in_part_is_not_called_missing() -> None:
    order = Reason("unmatched_collectives", "collectives are matched by order alone")
    absent = Reason("missing_ranks", "8 of 9 ranks found; missing 8")
    lag = result("straggler_lag", {}, status="partial", reasons=(order, absent))
    clocks = result("clock_offsets", {}, value=None, status="unavailable", reasons=(order,))
    trace = replace(TRACE, world_size=9, missing_text="8")
    found = explain(trace, {"straggler_lag": lag, "clock_offsets": clocks})

    # Which ranks have no file stands beside their number already.
    assert found.missing == (f"{order.message} (clock_offsets; in part: straggler_lag)",)


def test_a_rank_that_a_finding_names_is_not_named_with_a_second_share() -> None:
    lag = result("straggler_lag", LAG)
    chain = result("blame_chain", {"root_rank": "3", "root_share": 0.6})
    results = {"findings": found_in(finding()), "straggler_lag": lag, "blame_chain": chain}
    other = {**results, "blame_chain": result("blame_chain", {"root_rank": "5", "root_share": 0.6})}

    assert not [one for one in explain(TRACE, results).claims if one.metric == "blame_chain"]
    (told,) = [one for one in explain(TRACE, other).claims if one.metric == "blame_chain"]
    assert told.text.endswith("60 % of the waiting at collectives is due to rank 5.")


def test_lags_without_known_clocks_say_so() -> None:
    lag = result("straggler_lag", LAG | {"lag_aligned": None})

    assert (
        explain(TRACE, {"straggler_lag": lag})
        .claims[0]
        .text.endswith("after the first (n = 3), by durations alone: clocks are not all known.")
    )


def test_lags_of_selected_ranks_are_said_to_be_of_these() -> None:
    lag = result("straggler_lag", LAG)
    two = result("coll_call_num", {"num_traces": 2})
    claims = explain(TRACE, {"straggler_lag": lag, "coll_call_num": two}).claims

    assert claims[0].text.startswith("On average the last rank of the 2 selected reaches")


def test_names_of_files_cannot_write_to_the_terminal_or_the_document() -> None:
    hostile = found_in(finding("rank \x1b[31m <b>|`x`"))
    found = explain(TraceSummary("/jobs/\x1b]0;x", ranks=1), {"findings": hostile})

    for data in (as_markdown(found), as_json(found)):
        assert b"\x1b" not in data
    assert b"<b>" not in as_markdown(found)


def test_a_terminal_shows_names_without_backslashes() -> None:
    row = finding("Kernels of [CUDA graph 3] take 20 % of `train_step`.")
    found = explain(TRACE, {"findings": found_in(row)})

    assert b"**Kernels of [CUDA graph 3] take 20 % of `train_step`.**" in as_markdown(
        found, safe_text
    )
    assert rb"\[CUDA graph 3\]" in as_markdown(found)


def test_the_document_is_json_within_its_budget() -> None:
    found = explain(TRACE, {"findings": found_in(*[finding() for _ in range(200)])})

    for budget in (BUDGET, 2048):
        data = as_json(found, budget)
        document = json.loads(data)
        assert len(data) <= budget
        assert document["schema"] == "ccltui.explanation/2"
        assert document["findings"]
        kept = sum(len(document[part]) for part in ("findings", "claims"))
        assert document["left_out"] + kept == len(found.findings) + len(found.claims)
    assert json.loads(as_json(found, 10**6))["left_out"] == 0


def test_the_budget_holds_whatever_the_names_and_reasons() -> None:
    name = "\x1b\u202e" + "k" * 5000
    reasons = tuple(
        Reason("missing_ranks", f"{name} of rank {n} is {name}", rank=str(n)) for n in range(2000)
    )
    hostile = slow_worker(
        why=name,
        culprit={"ranks": [str(n) for n in range(5000)], "host": name},
        ruled_out=[{"class": name, "why": name}] * 300,
    )
    partial = result("straggler_lag", {}, status="partial", reasons=reasons)
    rows = [finding(name, more=name, do=name) for _ in range(300)]
    trace = TraceSummary("/" + name[:300], ranks=5000)
    found = explain(
        trace,
        {"findings": found_in(*rows), "verdict": hostile, "straggler_lag": partial},
    )

    for budget in (BUDGET, 20_000):
        data = as_json(found, budget)
        assert len(data) <= budget
        assert b"\x1b" not in data
        document = json.loads(data)
        parts = ("findings", "claims", "missing", "ruled_out")
        kept = sum(len(document[part]) for part in parts)
        every = sum(len(getattr(found, part)) for part in parts)
        assert document["left_out"] == every - kept > 0
        assert document["headline"].endswith("…")
        assert len(document["culprit"]["ranks"]) == 17


def test_a_name_that_is_no_unicode_can_be_written() -> None:
    row = found_in(finding("a\udcffb"))
    found = explain(TraceSummary("/jobs/\udcff", ranks=1), {"findings": row})
    for data in (as_json(found), as_markdown(found)):
        assert data.decode()


def test_collectives_that_differ_between_ranks_are_evidence() -> None:
    rows = [{"text": f"collective {n} of tp 0,1, AllReduce: not on rank 1"} for n in range(5)]
    groups = [
        {"group": "tp 0,1", "members": ["0", "1"], "outside": 2},
        {"group": "dp 1,3", "members": ["1", "3"], "outside": 1},
        {"group": "dp 0,2", "members": ["0", "2"], "outside": 0},
    ]
    details = {"findings": rows, "num_outside_window": 3, "by_group": groups}
    found = explain(TRACE, {"collective_mismatches": result("collective_mismatches", details)})

    first, second, outside = found.claims
    assert (first.text, first.key) == (f"{rows[0]['text']}.", "findings.0.text")
    assert second.key == "findings.1.text"
    assert outside.text.startswith("3 collectives were recorded on some ranks of a group only, ")
    assert outside.text.endswith(" Groups: tp 0,1; dp 1,3. Only rank 1 is in all of these groups.")
    assert found.actions[0].startswith("If the job hung, look first at rank 1,")
    details = {**details, "by_group": groups[:1]}
    one = explain(TRACE, {"collective_mismatches": result("collective_mismatches", details)})
    assert one.claims[-1].text.endswith(" Groups: tp 0,1.")
    assert "hung" not in one.actions[0]


def test_its_metrics_exist() -> None:
    from ccltui.metrics.registry import metrics

    assert set(METRICS) <= set(metrics())


def test_the_step_time_names_what_it_is_of() -> None:
    numbers: dict[str, object] = {
        "avg_iter_time_ms": 58.29,
        "std_iter_time_ms": 3.21,
        "num_iterations": 6,
    }
    slowest = result("step_variability", {"slowest_step": {"step": 13, "iter_time_ms": 64.84}})
    markers = {"iter_time": result("iter_time", numbers)}
    near, far = (
        {
            **markers,
            "step_composition": result("step_composition", {"step_ms": device}),
            "findings": result("findings", {"period": "step", "period_ms": device}),
        }
        for device in (58.31, 290.0)
    )

    assert step_time({**near, "step_variability": slowest}) == (
        "A step takes 58.3 ms (standard deviation 3.21 ms, n = 6). The "
        "slowest, step 13, takes 64.8 ms."
    )
    assert step_time(far) == (
        "By the step markers a step takes 58.3 ms (standard deviation 3.21 ms, n = 6). On the "
        "devices a step takes 290 ms, mean over ranks."
    )
    assert step_time({}) == ""


def test_one_step_has_no_median_and_no_slowest() -> None:
    numbers: dict[str, object] = {
        "avg_iter_time_ms": 625.7,
        "p50_iter_time_ms": 625.7,
        "std_iter_time_ms": 0.0,
        "num_iterations": 1,
    }
    slowest = result("step_variability", {"slowest_step": {"step": 5, "iter_time_ms": 625.7}})

    assert step_time({"iter_time": result("iter_time", numbers), "step_variability": slowest}) == (
        "A step takes 626 ms (n = 1)."
    )


def composition(*shares: float) -> Result:
    """Parts of the time of the devices, and the share that each rank computes."""
    per_rank = {str(rank): {"compute": share} for rank, share in enumerate(shares)}
    parts = [{"kind": "idle", "share": 0.9}, {"kind": "compute", "share": 0.1}]
    return result("step_composition", {"parts": parts, "per_rank": per_rank})


def texts_of(recording: str, *shares: float) -> list[str]:
    found = result("findings", {"findings": [finding()], "recording": recording})
    results = {"findings": found, "step_composition": composition(*shares)}
    return [claim.text for claim in explain(TRACE, results).claims]


def test_ranks_compute_alike_only_where_one_computes() -> None:
    alike = "All ranks compute about equally long, 10 % of the time."

    assert alike in texts_of("ranks", 0.1, 0.1)
    assert not any("alike" in text for text in texts_of("ranks", 0.0, 0.0))


def test_a_file_without_some_kernels_tells_nothing_of_idle_time() -> None:
    texts = texts_of("filtered", 0.1, 0.1)

    assert not any("idle" in text or "alike" in text for text in texts)
