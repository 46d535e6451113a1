"""A question while it is being answered: keys change the text, and the view if it is previewed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ccltui.parsers.errors import GrammarError
from ccltui.tui.input.prompt_line import Prompt, PromptEnd
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState

if TYPE_CHECKING:
    from ccltui.tui.input.prompts import Outcome, Question


class KeyOutcome(Struct, frozen=True):
    """State after a key: the question if it is still open, a view to preview, or the outcome."""

    asking: PromptSession | None = None
    state: ViewState | None = None
    outcome: Outcome | None = None


class PromptSession(Struct, frozen=True):
    """A question, the text so far, and the view to restore when it is cancelled."""

    question: Question
    prompt: Prompt
    before: ViewState

    @classmethod
    def of(cls, question: Question, scene: Scene) -> PromptSession:
        """Open a question."""
        start = question.start(scene)
        return cls(question, Prompt.asking(question.heading(start, scene), start), scene.state)

    def may_be_stroke(self) -> bool:
        """Whether the next key may be the second of two strokes instead of text."""
        return bool(self.question.prefix) and not self.prompt.text

    def press(self, key: str, character: str | None, scene: Scene) -> KeyOutcome:
        """Return the state after a key."""
        scene = scene.with_state(self.before)
        options = self.question.options(self.prompt.text, scene)
        if key == "tab":
            text = options[0] if options else self.prompt.text
            return self._typed(Prompt.asking(self.prompt.title, text), scene)
        typed = self.prompt.press(key, character)
        if typed is PromptEnd.CANCELLED:
            return KeyOutcome()
        if typed is PromptEnd.ACCEPTED:
            return self._answered(self.prompt, scene)
        if self.question.single and typed.text:
            return self._answered(typed, scene)
        return self._typed(typed, scene)

    def pasted(self, text: str, scene: Scene) -> PromptSession:
        """Return the question after text was pasted."""
        typed = self.prompt.insert(text)
        return self._typed(typed, scene.with_state(self.before)).asking or self

    def _answered(self, prompt: Prompt, scene: Scene) -> KeyOutcome:
        try:
            return KeyOutcome(outcome=self.question.answer(prompt.text, scene))
        except GrammarError as problem:
            text = "" if self.question.single else prompt.text
            again = Prompt.asking(prompt.title, text).refused(str(problem))
            return KeyOutcome(replace(self, prompt=again))

    def _typed(self, prompt: Prompt, scene: Scene) -> KeyOutcome:
        title = self.question.heading(prompt.text, scene)
        asking = replace(self, prompt=replace(prompt, title=title))
        if not self.question.previewed:
            return KeyOutcome(asking)
        try:
            found = self.question.answer(prompt.text, scene)
        except GrammarError:  # no valid answer yet: it is still being typed
            return KeyOutcome(asking)
        return KeyOutcome(asking, found if isinstance(found, ViewState) else None)
