"""Peak rates of devices, by names as cards and drivers spell them."""

from __future__ import annotations

import itertools

import pytest

from ccltui.metrics.model.peaks import DEVICES, PRECISIONS, find_device, precision_of


@pytest.mark.parametrize(
    ("name", "found", "bf16"),
    [
        ("nvidia_a100", "A100 SXM", 312.0),
        ("nvidia_a100_40gb", "A100 SXM", 312.0),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM", 312.0),
        ("NVIDIA A100-PCIE-40GB", "A100 PCIe", 312.0),
        ("NVIDIA H100 80GB HBM3", "H100 SXM", 989.0),
        ("NVIDIA H100 PCIe", "H100 PCIe", 756.0),
        ("NVIDIA H100 NVL", "H100 NVL", 835.0),
        ("NVIDIA H200", "H200", 989.0),
        ("NVIDIA GH200 480GB", "H200", 989.0),
        ("NVIDIA B200", "B200", 2250.0),
        ("NVIDIA GB200", "GB200", 2500.0),
        ("AMD Instinct MI300X VF", "MI300X", 1300.0),
        ("AMD Instinct MI250X", "MI250X die", 191.5),
        ("AMD Instinct MI355X", "MI355X", 2500.0),
        ("tpu_v6e", "TPU v6e", 918.0),
        ("NVIDIA A10G", "A10G", 70.0),
        ("NVIDIA A10", "A10", 125.0),
        ("NVIDIA L4", "L4", 121.0),
        ("NVIDIA L40", "L40", 181.0),
        ("NVIDIA L40S", "L40S", 362.0),
        ("NVIDIA H800", "H800 SXM", 989.0),
        ("NVIDIA B300", "B300", 2250.0),
        ("AMD Instinct MI300A", "MI300A", 980.6),
        ("AMD Instinct MI325X", "MI300X", 1300.0),
    ],
)
def test_devices(name: str, found: str, bf16: float) -> None:
    peak = find_device(name)

    assert peak is not None
    assert (peak.name, peak.tflops["bf16"]) == (found, bf16)


def test_old_devices_have_no_bf16() -> None:
    peak = find_device("Tesla V100-SXM2-16GB")

    assert peak is not None
    assert peak.tflops == {"fp16": 125.0, "fp32": 15.7}


@pytest.mark.parametrize("name", ["nvidia_dgx_spark", "gpu", "", "NVIDIA H20", "MI30", "xa100"])
def test_unknown_devices_have_no_peak(name: str) -> None:
    assert find_device(name) is None


def test_a_name_without_form_factor_gets_a_note() -> None:
    for name, note in (("nvidia_h100", True), ("NVIDIA H100 80GB HBM3", False), ("t4", False)):
        peak = find_device(name)
        assert peak is not None
        assert bool(peak.note) is note


def test_the_apu_is_three_quarters_of_the_accelerator() -> None:
    """228 of 304 compute units at one clock: the data sheets print MI300X as 1307.4 and 2614.9."""
    apu = find_device("AMD Instinct MI300A")

    assert apu is not None
    share = 228 / 304
    for precision, rate in (("bf16", 1307.4), ("tf32", 653.7), ("fp8", 2614.9), ("fp32", 163.4)):
        assert apu.tflops[precision] == pytest.approx(share * rate, rel=1e-3)


def test_rates_with_contradictory_sources_are_omitted() -> None:
    b300, h800 = find_device("NVIDIA B300"), find_device("NVIDIA H800")

    assert b300 is not None
    assert h800 is not None
    assert "fp4" not in b300.tflops
    assert "prints differ" in b300.source
    assert "fp32" not in h800.tflops


def test_halving_the_width_doubles_the_rate() -> None:
    """Of matrix units: tf32, bf16, fp8; where a device has them, within the rounding of prints."""
    for _, peak in DEVICES:
        rates = [peak.tflops.get(name) for name in ("tf32", "bf16", "fp8")]
        for wide, narrow in itertools.pairwise(rates):
            if wide is not None and narrow is not None:
                assert narrow == pytest.approx(2 * wide, rel=0.03), peak.name


def test_every_device_has_a_source_and_known_precisions() -> None:
    for _, peak in DEVICES:
        assert peak.source
        assert set(peak.tflops) <= set(PRECISIONS)
        assert all(rate > 0 for rate in peak.tflops.values())
        assert (peak.link_gbps is None) == (not peak.link_source)
        bf16, fp32 = peak.tflops.get("bf16"), peak.tflops.get("fp32")
        assert bf16 is None or fp32 is None or fp32 < bf16


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("bf16", "bf16"),
        ("bfloat16", "bf16"),
        ("mixed (bf16 params, fp32 reduce)", "bf16"),
        ("fp16_deepspeed", "fp16"),
        ("float32", "fp32"),
        ("FP8", "fp8"),
        ("nvfp4", "fp4"),
        ("tf32", "tf32"),
        ("int8", None),
        ("", None),
    ],
)
def test_precisions(text: str, precision: str | None) -> None:
    assert precision_of(text) == precision
