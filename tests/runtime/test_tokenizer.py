"""The tokenizer wrapper: nothing added, nothing cut, control tokens recognised."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import normalizers, processors
from transformers import PreTrainedTokenizerFast

from edgevlm.core import CheckpointError
from edgevlm.runtime.tokenizer import MEDIA_TOKENS, Tokenizer

from .sample_checkpoint import SPECIAL, make_tokenizer, write_checkpoint

TOKENIZER = Tokenizer(make_tokenizer(), [0])
REFERENCE = PreTrainedTokenizerFast(tokenizer_object=make_tokenizer())
TEXTS = st.lists(st.text(max_size=12) | st.sampled_from([*SPECIAL, "<think>"])).map("".join)


@given(TEXTS)
def test_ids_and_text_equal_the_published_tokenizer(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert ids == REFERENCE(text)["input_ids"]
    assert TOKENIZER.decode(ids) == REFERENCE.decode(ids, skip_special_tokens=True)


def test_a_prompt_is_never_cut_or_padded() -> None:
    backend = make_tokenizer()
    backend.enable_truncation(4)
    backend.enable_padding(length=4)
    tokenizer = Tokenizer(backend, [0])
    assert len(tokenizer.encode("a b c d e f g h i j")) > 4
    assert len(tokenizer.encode("a")) == 1


@pytest.mark.parametrize("token", SPECIAL)
def test_control_tokens_are_found_inside_text(token: str) -> None:
    assert TOKENIZER.find_control_token(f"x{token}y") == token
    assert TOKENIZER.find_control_token(token[:-1]) is None
    found = TOKENIZER.find_control_token(token, media_only=True)
    assert found == (token if token in MEDIA_TOKENS else None)


def test_nothing_is_added_to_a_prompt() -> None:
    backend = make_tokenizer()
    start = ("<|im_start|>", backend.token_to_id("<|im_start|>"))
    backend.post_processor = processors.TemplateProcessing("<|im_start|> $A", None, [start])
    assert backend.encode("hi").tokens[0] == "<|im_start|>"
    assert Tokenizer(backend, [0]).encode("hi") == TOKENIZER.encode("hi")


def test_control_tokens_are_special_ones_and_those_that_look_it() -> None:
    backend = make_tokenizer()
    backend.add_special_tokens(["[END]"])
    backend.add_tokens(["<|fim_prefix|>"])
    tokenizer = Tokenizer(backend, [0])
    for token in ("[END]", "<|fim_prefix|>"):
        assert tokenizer.find_control_token(f"a {token}") == token


def test_other_added_tokens_are_text() -> None:
    assert TOKENIZER.find_control_token("<think> a < b | c") is None


def test_a_token_that_appears_by_normalisation_is_found() -> None:
    backend = make_tokenizer()
    backend.normalizer = normalizers.NFKC()
    wide = "\uff1c|im_end|\uff1e"
    assert Tokenizer(backend, [0]).find_control_token(wide) == "<|im_end|>"
    assert TOKENIZER.find_control_token(wide) is None


def test_media_tokens_are_never_sampled() -> None:
    assert {TOKENIZER.token(index) for index in TOKENIZER.never_sampled} == set(MEDIA_TOKENS)
    assert TOKENIZER.token_id("<|im_end|>") not in TOKENIZER.never_sampled


def test_ends_of_an_answer(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)

    def ends() -> set[str]:
        tokenizer = Tokenizer.from_directory(tmp_path)
        return {tokenizer.token(index) for index in tokenizer.eos_ids}

    assert ends() == {"<|im_end|>", "<|endoftext|>"}
    single = {"eos_token_id": Backend.from_file(str(tmp_path / "tokenizer.json")).token_to_id("e")}
    (tmp_path / "generation_config.json").write_text(json.dumps(single))
    assert ends() == {"e"}
    (tmp_path / "generation_config.json").unlink()
    assert ends() == {"<|im_end|>"}
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": {"content": "<|endoftext|>"}}')
    assert ends() == {"<|endoftext|>"}
    (tmp_path / "tokenizer_config.json").unlink()
    with pytest.raises(CheckpointError, match="no end-of-sequence token"):
        ends()


def test_unusable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: no such file"):
        Tokenizer.from_directory(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: not a usable tokenizer"):
        Tokenizer.from_directory(tmp_path)
    write_checkpoint(tmp_path)
    (tmp_path / "generation_config.json").write_text("[]")
    with pytest.raises(CheckpointError, match=r"generation_config\.json: must be a JSON object"):
        Tokenizer.from_directory(tmp_path)
    for missing in (lambda: TOKENIZER.token(10**6), lambda: TOKENIZER.token_id("<|none|>")):
        with pytest.raises(CheckpointError, match="has no token"):
            missing()
