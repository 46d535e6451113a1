"""The anchors of the golden README that are ours: documents of metrics on public traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ccltui.metrics.registry import find

pytestmark = pytest.mark.shared

FILTER = "traces/hta/trace_filter"
NCCL = "traces/hta/nccl_parser_config/nccl_data.json.gz"
CONTROL = "traces/hta/trace_diff/control/control.json.gz"
RESNET = "traces/tracelens/traces/mi300/resnet_act_checkpoint.json.gz"
RESOLVER = "traces/hta/df_index_resolver/df_index_resolver.json.gz"
QWEN = "traces/tracelens/traces/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
B200 = "traces/tracelens/traces/b200/eager_trace.json.gz"
ALEXNET = "traces/hta/critical_path/alexnet"
EXPERTS = "traces/torchao/ref_ep_moe_fwd.json.gz"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One column cache for all anchors: every trace is read once."""
    return tmp_path_factory.mktemp("anchors")


class Asking:
    """Metrics of a public trace, by its path below the directory of traces."""

    def __init__(self, shared: Path, cache: Path) -> None:
        self.shared = shared
        self.cache = cache

    def __call__(self, metric: str, path: str, **options: Any) -> dict[str, Any]:
        options.setdefault("cache_dir", self.cache)
        return find(metric).document_of(self.shared / path, jobs=1, **options)


@pytest.fixture
def ask(shared: Path, cache: Path) -> Asking:
    return Asking(shared, cache)


class TestTraceFilter:
    """Anchors 1 to 11: two ranks of 128, whole µs, ten transfers each."""

    def test_overlap(self, ask: Asking) -> None:
        result = ask("comm_comp_overlap", FILTER)

        zero, one = result["per_rank"]["0"], result["per_rank"]["1"]
        assert (zero["span_ms"], zero["span_idle_ms"]) == (1222.847, 675.191)
        assert (zero["comp_time_ms"], zero["comm_time_ms"]) == (210.320, 396.199)
        assert zero["overlap_time_ms"] == 59.216
        assert zero["overlap_ratio_of_comm"] == pytest.approx(0.149460, abs=1e-6)
        assert (one["span_ms"], one["span_idle_ms"]) == (1231.186, 651.136)
        assert (one["comp_time_ms"], one["comm_time_ms"]) == (271.973, 379.053)
        assert one["overlap_ratio_of_comm"] == pytest.approx(0.199260, abs=1e-6)
        assert result["status"] == "partial"
        assert result["inputs"]["missing_ranks"] == list(range(2, 128))

    def test_overlap_with_named_compute(self, ask: Asking) -> None:
        result = ask("comm_comp_overlap", FILTER, overrides={"compute_set": "named"})

        ratios = {r: row["overlap_ratio_of_comm"] for r, row in result["per_rank"].items()}
        assert ratios == {
            "0": pytest.approx(0.116288, abs=1e-6),
            "1": pytest.approx(0.157099, abs=1e-6),
        }

    def test_steps(self, ask: Asking) -> None:
        result = ask("iter_time", FILTER)

        assert result["per_rank"]["0"] == {
            "avg": 615.120,
            "min": 607.312,
            "max": 622.928,
            "std": pytest.approx(11.042, abs=1e-3),
            "n": 2,
        }
        assert result["per_rank"]["1"]["avg"] == 619.2715
        assert result["inputs"]["steps"] == [551, 552]
        assert result["iter_times_ms"] == [607.904, 630.639]  # the slower rank of each

    def test_calls(self, ask: Asking) -> None:
        result = ask("coll_call_num", FILTER)

        assert result["calls_per_rank"] == {"0": 10, "1": 10}
        assert result["calls_by_type"]["SendRecv"] == result["total_calls"] == 20
        assert result["num_without_metadata"] == 20


class TestNcclData:
    """Anchors 17 to 22: rank 0 of 2 with metadata and nanoseconds."""

    def test_calls_and_bytes(self, ask: Asking) -> None:
        calls = ask("coll_call_num", NCCL)
        traffic = ask("traffic_distribution", NCCL)

        assert (calls["calls_by_type"]["AllReduce"], calls["calls_by_type"]["Broadcast"]) == (15, 6)
        assert (calls["total_calls"], calls["api_calls"]) == (21, 21)
        assert calls["num_without_metadata"] == 0
        assert traffic["total_bytes"] == traffic["world_bytes"] == 307323096
        assert (traffic["mode"], traffic["bytes_coverage"]) == ("process_group", 1.0)

    def test_overlap(self, ask: Asking) -> None:
        result = ask("comm_comp_overlap", NCCL)

        assert result["comm_time_ms"] == pytest.approx(46.876492, abs=1e-5)
        assert result["comp_time_ms"] == pytest.approx(115.655843, abs=1e-5)
        assert result["overlap_ratio_of_comm"] == pytest.approx(0.156092, abs=1e-5)
        # Exact; the anchor's 503.050928 is a sum of doubles.
        assert result["span_idle_ms"] == 503.050991

    def test_steps(self, ask: Asking) -> None:
        result = ask("iter_time", NCCL)

        assert result["avg_iter_time_ms"] == pytest.approx(222.368446, abs=1e-6)
        assert (result["min_iter_time_ms"], result["max_iter_time_ms"]) == (219.726905, 224.936243)
        assert result["std_iter_time_ms"] == pytest.approx(2.605452, abs=1e-6)


class TestOthers:
    """Anchors 23 to 33."""

    def test_trace_diff_control(self, ask: Asking) -> None:
        overlap = ask("comm_comp_overlap", CONTROL)
        calls = ask("coll_call_num", CONTROL)

        assert (overlap["comp_time_ms"], overlap["comm_time_ms"]) == (281.336, 163.535)
        assert overlap["overlap_time_ms"] == 75.614
        assert calls["calls_by_type"]["SendRecv"] == 42
        assert calls["calls_by_type"]["AllReduce"] == 18
        assert calls["api_calls"] == 60  # of 102 records, 42 are waits

    def test_resnet_keeps_work_without_a_launch(self, ask: Asking) -> None:
        overlap = ask("comm_comp_overlap", RESNET)
        calls = ask("coll_call_num", RESNET)

        assert overlap["comm_time_ms"] == pytest.approx(71.516523, abs=1e-5)
        assert overlap["comp_time_ms"] == 25.739303  # exact; in doubles 25.739351
        assert overlap["span_ms"] == pytest.approx(86.567708, abs=1e-5)
        assert overlap["uncorrelated"] == 968
        assert calls["total_calls"] == 17
        assert calls["calls_by_type"]["Broadcast"] == calls["calls_by_type"]["AllReduce"] == 6
        assert calls["calls_by_type"]["Generic"] == calls["num_without_metadata"] == 5

    def test_resnet_steps_are_not_the_stubs_on_the_device(self, ask: Asking) -> None:
        result = ask("iter_time", RESNET)

        assert result["iter_times_ms"] == [16.798984, 15.950958, 15.887029]
        assert result["inputs"]["steps"] == [15, 16, 17]

    def test_df_index_resolver(self, ask: Asking) -> None:
        calls = ask("coll_call_num", RESOLVER)
        overlap = ask("comm_comp_overlap", RESOLVER)
        steps = ask("iter_time", RESOLVER)

        assert (calls["total_calls"], calls["calls_by_type"]["AllReduce"]) == (2020, 2020)
        assert (overlap["comm_time_ms"], overlap["overlap_time_ms"]) == (357.343, 0.0)
        assert (steps["avg_iter_time_ms"], steps["num_iterations"]) == (347.544, 5)

    def test_qwen_has_no_collective(self, ask: Asking) -> None:
        overlap = ask("comm_comp_overlap", QWEN)
        bubble = ask("pipeline_bubble", QWEN, span="trace")
        calls = ask("coll_call_num", QWEN)

        assert (overlap["status"], overlap["reason"]) == ("unavailable", "no_collectives")
        assert overlap["overlap_ratio_of_comm"] is None
        assert (calls["status"], calls["total_calls"]) == ("ok", 0)  # a real zero
        assert bubble["idle_ratio"] == pytest.approx(0.080671, abs=1e-6)
        assert bubble["method"] == "idle_only"

    def test_alexnet_has_no_collective(self, ask: Asking) -> None:
        overlap = ask("comm_comp_overlap", ALEXNET)
        lag = ask("straggler_lag", ALEXNET)
        bubble = ask("pipeline_bubble", ALEXNET, span="trace")

        assert (overlap["status"], overlap["reason"]) == ("unavailable", "no_collectives")
        assert (lag["status"], lag["mean_lag_us"]) == ("unavailable", None)
        assert bubble["total_time_ms"] == 12920.244  # synchronisation rows are no work

    def test_b200_without_step_markers(self, ask: Asking) -> None:
        steps = ask("iter_time", B200)
        overlap = ask("comm_comp_overlap", B200)
        calls = ask("coll_call_num", B200)
        traffic = ask("traffic_distribution", B200)

        assert (steps["status"], steps["reason"]) == ("unavailable", "no_step_markers")
        gather = overlap["by_type"]["AllGather"]
        assert gather["comm_time_ms"] == pytest.approx(0.021953, abs=1e-6)
        # The size of an all-gather is its output: 8 ranks times the anchor's input of 50272.
        assert traffic["by_type"]["AllGather"]["message_bytes"] == 8 * 50272
        # 73 all-reduces through symmetric memory, which NCCL's names do not show.
        assert calls["calls_by_type"] == {
            **dict.fromkeys(calls["calls_by_type"], 0),
            "AllReduce": 73,
            "AllGather": 1,
        }

    def test_expert_traffic_through_sendrecv_kernels(self, ask: Asking) -> None:
        calls = ask("coll_call_num", EXPERTS)
        traffic = ask("traffic_distribution", EXPERTS)

        assert (calls["calls_by_type"]["AllToAll"], calls["calls_by_type"]["SendRecv"]) == (30, 1)
        assert (calls["api_calls"], calls["num_without_metadata"]) == (30, 1)
        assert traffic["fractions"]["ep"] == 1.0
        # The one kernel without metadata may be of any other dimension.
        assert (traffic["pp_bytes"], traffic["mode"]) == (None, "heuristic")


class TestTwoRank:
    """Anchors 57 to 61 and 64 to 66: every number by hand."""

    @pytest.fixture
    def directory(self, shared: Path, tmp_path: Path) -> Path:
        """The two ranks and a link to rank 0, as the sample has it."""
        source = shared / "golden" / "two_rank" / "profile_trace"
        target = tmp_path / "two_rank" / "profile_trace"
        target.mkdir(parents=True)
        for path in source.iterdir():
            (target / path.name).write_bytes(path.read_bytes())
        (target.parent / "kineto_trace_0.json").symlink_to("profile_trace/rank0_trace.json")
        return target.parent

    def test_calls(self, directory: Path) -> None:
        result = find("coll_call_num").document_of(directory)

        assert (result["status"], result["total_calls"]) == ("ok", 2)
        assert result["calls_per_rank"] == {"0": 1, "1": 1}
        assert result["calls_by_type"]["AllReduce"] == 2
        assert (result["num_traces"], result["inputs"]["ranks"]) == (2, [0, 1])
        assert len(result["inputs"]["duplicates"]) == 1

    def test_overlap(self, directory: Path) -> None:
        result = find("comm_comp_overlap").document_of(directory)

        for row in result["per_rank"].values():
            assert (row["comm_time_ms"], row["comp_time_ms"]) == (0.2, 0.4)
            assert (row["overlap_time_ms"], row["exposed_comm_ms"]) == (0.1, 0.1)
            assert (row["comp_sum_ms"], row["idle_ms"], row["window_ms"]) == (0.6, 0.0, 0.5)
        assert result["overlap_ratio_of_comm"] == 0.5
        assert result["overlap_ratio_of_comp"] == 0.25
        assert (result["num_comm_kernels"], result["num_comp_kernels"]) == (2, 4)
        assert result["compute_set"] == "all"

    def test_steps(self, directory: Path) -> None:
        result = find("iter_time").document_of(directory)

        assert (result["avg_iter_time_ms"], result["num_iterations"]) == (1.0, 1)
        assert result["std_iter_time_ms"] is None

    def test_traffic(self, directory: Path) -> None:
        result = find("traffic_distribution").document_of(directory)

        # No group tells the dimension of its all-reduces: the heuristic gives the parts.
        assert result["total_bytes"] == result["tp_bytes"] == 2 * 4194304
        assert result["by_dim"]["unknown"]["message_bytes"] == 2 * 4194304
        assert (result["status"], result["mode"], result["dp_bytes"]) == ("partial", "heuristic", 0)


def test_sixteen_is_another_name_for_the_same(shared: Path) -> None:
    directory = shared / "golden" / "two_rank"

    assert find("coll_call_num_16").document_of(directory) == find("coll_call_num").document_of(
        directory
    )
