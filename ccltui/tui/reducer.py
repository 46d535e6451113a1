"""What the application is told, and the scene that follows from it."""

from __future__ import annotations

from dataclasses import replace

from ccltui.tui.engine.messages import (
    STOPPING,
    Exported,
    Fact,
    FindingsReady,
    JobOpened,
    Problem,
    after,
)
from ccltui.tui.state import side_tables
from ccltui.tui.state.queries import Answered, answered
from ccltui.tui.state.rebase_findings import adopt
from ccltui.tui.state.scene import Findings, Scene


def scene_after(scene: Scene, fact: Fact) -> Scene:
    """The scene that follows from a fact."""
    if isinstance(fact, FindingsReady):
        return _adopted(scene, fact.findings)
    if isinstance(fact, Problem):
        return replace(scene, notice=fact.problem)
    if isinstance(fact, Exported):
        return replace(scene, said=fact.message, notice=fact.problem)
    if isinstance(fact, Answered):
        return answered(scene, fact)
    scene = replace(scene, session=after(scene.session, fact))
    if scene.notice == STOPPING and not scene.session.busy:
        scene = replace(scene, notice="")
    return side_tables.opened(scene) if isinstance(fact, JobOpened) else scene


def _adopted(scene: Scene, findings: Findings) -> Scene:
    """Take what is new; of fewer ranks than are there by now only the numbers."""
    session = scene.session
    if findings.generation == session.generation:
        return adopt(scene, findings)
    if session.accepts(findings.generation):
        told = replace(scene.findings, metrics=findings.metrics, results=findings.results)
        return replace(scene, findings=told)
    return scene
