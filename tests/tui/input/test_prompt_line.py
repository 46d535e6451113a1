"""The one-line text input, key by key."""

from __future__ import annotations

from ccltui.tui.input.prompt_line import Prompt, PromptEnd

NAMED = {"←": "left", "→": "right", "⌫": "backspace", "⌦": "delete", "⇤": "home", "⇥": "end"}


def typed(keys: str, start: str = "") -> str:
    """The text after keys, the cursor as ``|``."""
    prompt = Prompt.asking("window", start)
    for key in keys:
        after = prompt.press(NAMED.get(key, key), None if key in NAMED else key)
        assert isinstance(after, Prompt)
        prompt = after
    return f"{prompt.text[: prompt.cursor]}|{prompt.text[prompt.cursor :]}"


def test_typing_and_editing() -> None:
    assert typed("2s/4s") == "2s/4s|"
    assert typed("←←x", "abc") == "ax|bc"
    assert typed("←←→⌫⌦", "abc") == "a|"
    assert typed("⇤0⇥9", "/5s") == "0/5s9|"
    assert typed("⇤⌫←", "ab") == "|ab"
    assert typed("⌦→", "ab") == "ab|"


def test_control_keys() -> None:
    prompt = Prompt.asking("window", "abc").press("left", None)

    assert isinstance(prompt, Prompt)
    assert prompt.press("ctrl+u", "\x15") == Prompt("window", "c", 0)
    assert prompt.press("f5", None) == prompt
    assert prompt.insert("1 2") == Prompt("window", "ab1 2c", 5)


def test_ends_and_problems() -> None:
    prompt = Prompt.asking("window", "4s")

    assert prompt.press("enter", "\r") is PromptEnd.ACCEPTED
    assert prompt.press("escape", None) is PromptEnd.CANCELLED
    refused = prompt.refused("no slash")
    assert refused.lines(30)[0][0][0] == " ! no slash"
    again = refused.press("/", "/")
    assert isinstance(again, Prompt)
    assert (again.text, again.problem) == ("4s/", "")


def test_a_long_text_scrolls_with_the_cursor() -> None:
    prompt = Prompt.asking("window", "x" * 50 + "yz")

    for at in (52, 51, 3):
        shown = "".join(text for text, _ in prompt.lines(20)[1])
        assert len(shown) == 20
        prompt = Prompt("window", prompt.text, at)
    assert "yz" in "".join(text for text, _ in Prompt.asking("w", prompt.text).lines(20)[1])
