"""Every test of the Kineto reader runs with the general decoder and with the compiled scanner."""

from __future__ import annotations

import pytest

from ccltui.parsers.kineto.scanner import typed_event

DECODERS = ["general", "compiled"]


def use_decoder(monkeypatch: pytest.MonkeyPatch, decoder: str) -> None:
    if decoder == "compiled" and not typed_event.compiled():
        pytest.skip("the scanner is not compiled here")
    monkeypatch.setenv("CCLTUI_ACCEL", "1" if decoder == "compiled" else "0")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "decoder" in metafunc.fixturenames:
        metafunc.parametrize("decoder", DECODERS, indirect=True)


@pytest.fixture
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    use_decoder(monkeypatch, request.param)
    name: str = request.param
    return name
