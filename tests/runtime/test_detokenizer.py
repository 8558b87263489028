"""Streaming text equals the decoded whole and never shows a broken character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgevlm.runtime.detokenizer import IncrementalDecoder, StopMatcher

BROKEN = "\ufffd"


def decode_bytes(ids: list[int]) -> str:
    """A byte-level vocabulary: token ``i`` is byte ``i``, the hardest case for streaming."""
    return bytes(ids).decode("utf-8", errors="replace")


@given(st.text())
def test_pieces_join_to_the_text_and_are_never_broken(text: str) -> None:
    decoder = IncrementalDecoder(decode_bytes)
    pieces = [decoder.push(token) for token in text.replace(BROKEN, "").encode()]
    pieces.append(decoder.flush())
    assert "".join(pieces) == text.replace(BROKEN, "")
    assert not any(BROKEN in piece for piece in pieces)


@given(st.text(min_size=1, alphabet="né漢🙂"), st.integers(1, 3))
def test_generation_cut_inside_a_character_drops_its_bytes(text: str, cut: int) -> None:
    tokens = text.encode()[:-cut]
    decoder = IncrementalDecoder(decode_bytes)
    shown = "".join([*(decoder.push(token) for token in tokens), decoder.flush()])
    assert text.startswith(shown)
    assert BROKEN not in shown


def test_text_appears_as_soon_as_its_character_is_complete() -> None:
    decoder = IncrementalDecoder(decode_bytes)
    assert [decoder.push(token) for token in "é!".encode()] == ["", "é", "!"]


def test_decoders_that_strip_a_leading_space_keep_it_between_tokens() -> None:
    words = ["hello", " world", " again"]

    def decode(ids: list[int]) -> str:
        return "".join(words[i] for i in ids).lstrip(" ")

    decoder = IncrementalDecoder(decode)
    assert [decoder.push(i) for i in range(3)] == words


@given(
    st.lists(st.text("ab", max_size=4), max_size=8),
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=3),
)
def test_stop_strings_cut_before_the_first_one(pieces: list[str], stops: list[str]) -> None:
    text = "".join(pieces)
    matcher = StopMatcher(stops)
    shown = "".join(matcher.push(piece) for piece in pieces)
    shown += matcher.flush()
    found = [text.find(stop) for stop in stops if stop in text]
    assert matcher.stopped == bool(found)
    if not found:
        assert shown == text
        return
    # Pieces arrive one by one, so the first stop string to *complete* decides.
    assert text.startswith(shown)
    assert not any(stop in shown for stop in stops)
    assert any(text.startswith(stop, len(shown)) for stop in stops)


@pytest.mark.parametrize("stops", [(), ("",)])
def test_without_stop_strings_nothing_is_held_back(stops: tuple[str, ...]) -> None:
    matcher = StopMatcher(stops)
    assert matcher.push("abc") == "abc"
    assert not matcher.stopped


def test_only_what_may_become_a_stop_string_is_held_back() -> None:
    matcher = StopMatcher(["</end>"])
    assert [matcher.push(p) for p in ("a<", "/e", "x", "</end>", "more")] == [
        "a",
        "",
        "</ex",
        "",
        "",
    ]
