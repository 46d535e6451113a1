"""Where Slurm cannot run its tests say so; where it must, they fail."""

from __future__ import annotations

import os
import shutil

import hold_cluster
import pytest
from presence import absent, why_not


def test_a_user_without_rights_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert why_not() == "needs root: device files and name spaces"


def test_packages_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name[0] == "m" else name)

    assert why_not() == "not installed: munged, munge, mount"


def test_what_is_absent_skips_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CCLTUI_SLURM", raising=False)

    with pytest.raises(pytest.skip.Exception, match="no Slurm"):
        absent("no Slurm")


def test_what_is_absent_fails_it_where_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCLTUI_SLURM", "require")

    with pytest.raises(pytest.fail.Exception, match="no Slurm"):
        absent("no Slurm")


def test_a_cluster_for_tries_by_hand_names_what_is_absent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert hold_cluster.main() == 1

    assert capsys.readouterr() == ("", "no Slurm here: needs root: device files and name spaces\n")
