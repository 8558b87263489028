"""Every pruner from a request to an answer, and the attention importance some of them need."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from PIL import Image

from edgevlm.builder.build import BuildConfig, build_engine
from edgevlm.cli.llm_inference import main
from edgevlm.pruners import VisualPrunerConfig, create_visual_pruner, visual_pruner_names
from edgevlm.runtime import ChatRequest, ImagePart, Message, Runtime, SamplingParams, TextPart
from edgevlm.runtime.embeddings import assemble
from edgevlm.runtime.prompt import VisualItem
from edgevlm.runtime.vision import VisionRunner
from tests.models.received_attention import received_attention

from .conftest import BACKENDS, CHECKPOINT, LIMITS, ask, samples
from .oracle import Oracle

GREEDY = SamplingParams(temperature=0.0, max_tokens=8)
RATIOS = (0.25, 0.5)
STAGED = ("dart-layer",)  # prunes between decoder layers, where the backend can stop there


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle()


@pytest.mark.parametrize("backend", BACKENDS)
def test_importance_is_the_attention_that_transformers_computes(
    backend: str, oracle: Oracle, runtimes: dict[str, Runtime]
) -> None:
    runtime = runtimes[backend]
    vision = runtime._vision
    assert vision is not None
    for sample in samples(6):
        prompt = runtime._processor.prepare(ask(sample))
        features = vision.encode(prompt.media, importance=True)
        for item, feature in zip(prompt.media, features, strict=True):
            expected = received_attention(oracle.model.model.visual, item.patches, item.grid, -1)
            assert feature.importance is not None
            torch.testing.assert_close(
                feature.importance, expected.view(-1, 4).sum(dim=1), atol=1e-3, rtol=0
            )
            assert float(feature.importance.sum()) == pytest.approx(len(item.patches), abs=1e-3)
        io = assemble(runtime._llm, prompt, features, 3)
        assert io.importance is not None
        text = torch.ones(len(io), dtype=torch.bool)
        for span, feature in zip(io.spans, features, strict=True):
            text[span.start : span.end] = False
            assert torch.equal(io.importance[span.start : span.end], feature.importance)
        assert not io.importance[text].any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_only_those_who_need_importance_make_the_engine_deliver_it(
    backend: str, runtimes: dict[str, Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, wanted = runtimes[backend], []
    assert runtime._vision is not None
    engine = runtime._vision._engine
    encode = engine.encode

    def watch(batch, *, attention=False):  # type: ignore[no-untyped-def]
        output = encode(batch, attention=attention)
        wanted.append((attention, output.attention is not None))
        return output

    monkeypatch.setattr(engine, "encode", watch)
    sample = samples(1)[0]
    for settings in ({"algorithm": "dart"}, {"algorithm": "holov"}, {"enabled": False}):
        assert runtime.generate([ask(sample, visual_pruning=settings)])[0].error is None
    assert wanted == [(False, False), (True, True), (False, False)]


def test_backends_deliver_the_same_importance(runtimes: dict[str, Runtime]) -> None:
    def importance(runner: VisionRunner | None, media: tuple[VisualItem, ...]) -> torch.Tensor:
        assert runner is not None
        found = [feature.importance for feature in runner.encode(media, importance=True)]
        return torch.cat([score for score in found if score is not None])

    for sample in samples(8):
        media = runtimes["torch"]._processor.prepare(ask(sample)).media
        one, other = (importance(runtimes[name]._vision, media) for name in BACKENDS)
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_held_out_questions_under_every_algorithm(
    backend: str, runtimes: dict[str, Runtime]
) -> None:
    runtime, asked = runtimes[backend], samples(8)
    full = [runtime._processor.prepare(ask(sample)) for sample in asked]
    cases = [
        (name, ratio, place)
        for name in visual_pruner_names()
        for first, ratio in enumerate(RATIOS)
        for place in range(first, len(asked), len(RATIOS))
    ]
    responses = runtime.generate(
        ask(asked[place], visual_pruning={"algorithm": name, "reduction_ratio": ratio})
        for name, ratio, place in cases
    )
    right = dict.fromkeys(visual_pruner_names(), 0)
    for (name, ratio, place), response in zip(cases, responses, strict=True):
        prompt, report = full[place], response.report
        assert response.error is None and report is not None
        sizes = [len(span) for span in prompt.spans]
        assert (report.algorithm, report.reduction_ratio) == (name, ratio)
        assert report.visual_tokens_before == sum(sizes)
        assert report.prompt_tokens_before == len(prompt.token_ids)
        assert report.prompt_tokens_after == response.prompt_tokens
        right[name] += response.text == asked[place].answer
        if name in STAGED and report.skipped is not None:
            assert "early decoder layer" in report.skipped
            continue
        assert report.skipped is None
        assert len(report.kept_positions) == report.visual_tokens_after
        pruner = create_visual_pruner(VisualPrunerConfig(True, name, ratio))
        exact = sum(pruner.config.quota(size) for size in sizes)
        slack = {"visionzip": 0.01, "downsample": 0.07}.get(name, 0.0)
        assert report.visual_tokens_after == pytest.approx(exact, rel=slack)
    # The model is right on all eight unpruned; no algorithm may lose most of them.
    assert min(right.values()) >= 4, right


def test_downsampling_shows_the_tower_smaller_images(
    runtimes: dict[str, Runtime], oracle: Oracle
) -> None:
    """Its answers are those of ``transformers`` to the same, smaller, patches."""
    pruner = create_visual_pruner(VisualPrunerConfig(True, "downsample", 0.5))
    for sample in samples(8)[:5]:
        request = ask(sample)
        prompt = runtimes["torch"]._processor.prepare(request, pruner.shown_tokens)
        expected = oracle.model(**oracle.inputs(prompt)).logits[0, -1]
        for backend in BACKENDS:
            runtime = runtimes[backend]
            assert runtime._vision is not None
            io = assemble(runtime._llm, prompt, runtime._vision.encode(prompt.media), 3)
            logits = runtime._llm.prefill(0, pruner.prune(io, prompt.shrunk_tokens)[0])
            torch.testing.assert_close(logits, expected, atol=1e-3, rtol=0)


def thirty_images(width: int, pruning: dict[str, object]) -> ChatRequest:
    """One request of thirty images of 32 x ``width`` pixels, which must not be resized."""
    tiles = [Image.new("RGB", (width, 32), (8 * i, 40, 200)) for i in range(30)]
    parts = (*(ImagePart(tile, do_resize=False) for tile in tiles), TextPart("How many?"))
    return ChatRequest((Message("user", parts),), GREEDY, visual_pruning=pruning)


@pytest.mark.parametrize("backend", BACKENDS)
def test_thirty_images(backend: str, runtimes: dict[str, Runtime]) -> None:
    names = [name for name in visual_pruner_names() if name not in (*STAGED, "downsample")]
    for name in names:
        config = {"algorithm": name, "reduction_ratio": 0.5}
        single, double = runtimes[backend].generate(thirty_images(w, config) for w in (32, 64))
        assert single.report is not None and double.report is not None
        assert single.report.skipped == "nothing to remove"
        assert (double.report.visual_tokens_before, double.report.visual_tokens_after) == (60, 30)


@pytest.fixture
def without_importance(tmp_path: Path) -> Iterator[Runtime]:
    output = tmp_path / "engine"
    build_engine(BuildConfig(CHECKPOINT, output, "torch", "float32", LIMITS, importance_layer=None))
    yield Runtime.open(output / "llm", output / "visual", device="cpu")


def test_an_engine_without_importance_works_and_says_what_it_lacks(
    without_importance: Runtime,
) -> None:
    sample = samples(1)[0]
    dart, zipped = without_importance.generate(
        ask(sample, visual_pruning={"algorithm": name}) for name in ("dart", "visionzip")
    )
    assert (dart.text, dart.error) == (sample.answer, None)
    assert zipped.error is not None
    assert "'visionzip' ranks tokens by the attention" in zipped.error
    assert "rebuild it with edgevlm build --importance-layer -1" in zipped.error


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_request_file_may_mix_algorithms(
    backend: str, engines: dict[str, Path], tmp_path: Path
) -> None:
    names = [name for name in visual_pruner_names() if name not in STAGED]
    requests = []
    for place, (name, sample) in enumerate(zip(names, samples(len(names)), strict=True)):
        content: list[dict[str, str]] = []
        for number, pixels in enumerate(sample.images):
            Image.fromarray(pixels).save(tmp_path / f"{place}-{number}.png")
            content.append({"type": "image", "image": f"{place}-{number}.png"})
        content.append({"type": "text", "text": sample.question})
        pruning = {"algorithm": name, "reduction_ratio": RATIOS[place % 2]}
        message = {"role": "user", "content": content}
        requests.append({"messages": [message], "visual_pruning": pruning})
    source, output = tmp_path / "requests.json", tmp_path / "output.json"
    document = {"temperature": 0.0, "max_generate_length": 8, "batch_size": 4}
    source.write_text(json.dumps({**document, "requests": requests}), encoding="utf-8")
    flags = {
        "--engineDir": engines[backend] / "llm",
        "--multimodalEngineDir": engines[backend] / "visual",
        "--inputFile": source,
        "--outputFile": output,
    }
    assert main([str(word) for pair in flags.items() for word in pair]) == 0
    responses = json.loads(output.read_text(encoding="utf-8"))["responses"]
    for request, response in zip(requests, responses, strict=True):
        report, wanted = response["usage"]["visual_pruning"], request["visual_pruning"]
        assert (report["algorithm"], report["skipped"]) == (wanted["algorithm"], None)
        share = report["visual_tokens_after"] / report["visual_tokens_before"]
        assert share == pytest.approx(1 - wanted["reduction_ratio"], abs=0.04)
