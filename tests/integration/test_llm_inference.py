"""The ``llm_inference`` command on the bundled checkpoint: answers, files, profile, exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from edgevlm.cli.llm_inference import main
from edgevlm.core import UsageError
from edgevlm.runtime import write_atomically

from .conftest import BACKENDS, samples

Command = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def command(engines: dict[str, Path], tmp_path: Path) -> Command:
    """Run the command on a list of requests; returns its status and output document."""

    def run(requests: Any, *flags: str, target: str = "onnxruntime", **settings: Any) -> Any:
        document = {"temperature": 0.0, "max_generate_length": 8, "batch_size": 4, **settings}
        source, output = tmp_path / "requests.json", tmp_path / "output.json"
        source.write_text(json.dumps({**document, "requests": requests}), encoding="utf-8")
        output.unlink(missing_ok=True)
        arguments = {
            "--engineDir": engines[target] / "llm",
            "--multimodalEngineDir": engines[target] / "visual",
            "--inputFile": source,
            "--outputFile": output,
        }
        words = [str(word) for pair in arguments.items() for word in pair]
        status = main([*words, *flags])
        return status, json.loads(output.read_text(encoding="utf-8")) if output.exists() else {}

    return run


@pytest.fixture
def questions(tmp_path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Eight requests with their images as PNG files, and the right answers."""
    requests, answers = [], []
    for number, sample in enumerate(samples(8, seed=3)):
        content: list[dict[str, str]] = []
        for place, pixels in enumerate(sample.images):
            path = tmp_path / f"{number}-{place}.png"
            Image.fromarray(pixels).save(path)
            content.append({"type": "image", "image": str(path)})
        content.append({"type": "text", "text": sample.question})
        requests.append({"messages": [{"role": "user", "content": content}]})
        answers.append(sample.answer)
    return requests, answers


@pytest.mark.parametrize("target", BACKENDS)
def test_answers_and_output_layout(
    command: Command, questions: tuple[list[dict[str, Any]], list[str]], target: str
) -> None:
    requests, answers = questions
    status, document = command(requests, target=target)
    assert status == 0
    assert [r["output_text"] for r in document["responses"]] == answers
    for place, response in enumerate(document["responses"]):
        assert response["request_idx"] == place
        assert response["batch_idx"] == place % 4
        assert response["finish_reason"] == "end-of-sequence"
        assert response["messages"] == requests[place]["messages"]
        assert response["generated_token_count"] == response["usage"]["completion_tokens"] > 0
        assert response["formatted_complete_request"].startswith("<|im_start|>user\n")
        assert response["usage"]["visual_pruning"]["skipped"] == "disabled"
        assert response["timing"]["ttft_ms"] > 0


def test_pruning_flags_and_a_request_of_its_own(
    command: Command, questions: tuple[list[dict[str, Any]], list[str]]
) -> None:
    requests, _ = questions
    requests[1]["visual_pruning"] = {"algorithm": "dart", "reduction_ratio": 0.75}
    requests[2]["visual_pruning"] = {"enabled": False}
    status, document = command(
        requests, "--visualPrune", "--dartReductionRatio", "0.5", "--dartPivotImageTokens", "2"
    )
    assert status == 0
    reports = [r["usage"]["visual_pruning"] for r in document["responses"]]
    before, after = reports[0]["visual_tokens_before"], reports[0]["visual_tokens_after"]
    assert after == before // 2
    assert reports[0]["prompt_tokens_after"] == document["responses"][0]["usage"]["prompt_tokens"]
    assert reports[1]["visual_tokens_after"] == reports[1]["visual_tokens_before"] // 4
    assert reports[2]["skipped"] == "disabled"


def test_profile_has_the_seeds_keys_and_ours(
    command: Command,
    questions: tuple[list[dict[str, Any]], list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "profile.json"
    flags = ("--visualPrune", "--dumpProfile", "--profileOutputFile", str(file), "--warmup", "1")
    status, document = command(questions[0], *flags)
    assert status == 0
    profile = json.loads(file.read_text(encoding="utf-8"))
    computed = sum(r["usage"]["prompt_tokens"] for r in document["responses"])
    pruned = sum(r["usage"]["visual_pruning"]["pruned_tokens"] for r in document["responses"])
    assert profile["prefill"]["computed_tokens"] == computed
    assert profile["prefill"]["pruned_tokens"] == pruned > 0
    # The warm-up is in no figure.
    assert profile["prefill"]["total_runs"] == 8
    generated = sum(r["generated_token_count"] for r in document["responses"])
    assert profile["wall_clock"]["generated_tokens"] == generated
    assert profile["generation"]["generated_tokens"] == generated - 8
    assert profile["multimodal"]["total_images"] == 12
    assert {"p50", "p95", "p99"} <= set(profile["latency"]["ttft"])
    text = capsys.readouterr().out
    for line in (
        "=== Performance Summary ===",
        "=== LLM Prefill ===",
        f"Computed Tokens: {computed}",
        f"Pruned Tokens (visual-token pruning): {pruned}",
        "=== LLM Generation (Excluding sampling after prefill) ===",
        "=== Multimodal Processing ===",
        "=====================================",
    ):
        assert line in text.splitlines()


def test_a_prompt_that_fits_only_after_pruning_is_accepted(
    command: Command, questions: tuple[list[dict[str, Any]], list[str]]
) -> None:
    tables = questions[0][7]["messages"][0]["content"]
    long = {"messages": [{"role": "user", "content": [tables[0], tables[0], tables[1]]}]}
    status, document = command([long])
    error = document["responses"][0]["error"]
    assert status == 1
    assert "the prompt has 5" in error and "takes 320" in error
    assert "--max-input-len" in error
    status, document = command([long], "--visualPrune", "--dartReductionRatio", "0.5")
    assert status == 0
    assert document["responses"][0]["usage"]["prompt_tokens"] <= 320


def test_failed_requests_leave_the_others_answered(
    command: Command,
    questions: tuple[list[dict[str, Any]], list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    good = questions[0][0]
    corrupt = tmp_path / "corrupt.png"
    corrupt.write_bytes(Path(good["messages"][0]["content"][0]["image"]).read_bytes()[:300])
    wide = tmp_path / "wide.png"
    Image.new("RGB", (2010, 10)).save(wide)

    def asking(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
        parts = [*content, {"type": "text", "text": "What is there?"}]
        return {"messages": [{"role": "user", "content": parts}], **more}

    bad = {
        "absent.png": asking({"type": "image", "image": "absent.png"}),
        "corrupt.png": asking({"type": "image", "image": str(corrupt)}),
        "200": asking({"type": "image", "image": str(wide)}),
        "<|image_pad|>": asking({"type": "text", "text": "<|image_pad|>"}),
        "known: dart": asking(visual_pruning={"algorithm": "darts"}),
        "between 0 and 1": asking(visual_pruning={"reduction_ratio": 1.5}),
        "0 to 64": asking(visual_pruning={"pivot_image_tokens": 65}),
        "requests[8].messages[0].content[0]": asking({"type": "sound", "sound": "x"}),
    }
    status, document = command([good, *bad.values(), good])
    assert status == 1
    responses = document["responses"]
    assert responses[0]["output_text"] == responses[-1]["output_text"] == questions[1][0]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(bad)
    for place, (expected, line) in enumerate(zip(bad, lines, strict=True), start=1):
        assert line.startswith(f"error: request {place}: ")
        assert expected in line
        assert responses[place]["finish_reason"] == "error"
        assert responses[place]["error"] in line


def test_an_automatic_ratio_says_what_it_chose(
    command: Command, questions: tuple[list[dict[str, Any]], list[str]]
) -> None:
    flags = ("--visualPrune", "--dartReductionRatio", "auto", "--visualPruneOption")
    status, document = command(questions[0], *flags, "auto_max=0.3")
    assert status == 0
    for request, response in zip(questions[0], document["responses"], strict=True):
        report = response["usage"]["visual_pruning"]
        assert report["reduction_ratio"] == "auto"
        assert len(report["adapted"]) == len(request["messages"][0]["content"]) - 1
        for image in report["adapted"]:
            assert 0.1 <= image["reduction_ratio"] <= 0.3
        removed = report["pruned_tokens"] / report["visual_tokens_before"]
        assert 0.05 < removed <= 0.3


def test_an_unreadable_ratio(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command([], "--dartReductionRatio", "much")
    assert "must be a number or auto, got 'much'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--visualPrune", "--visualPruneAlgo", "darts"), "known: dart"),
        (("--visualPrune", "--dartReductionRatio", "1"), "strictly between 0 and 1"),
        (("--visualPrune", "--dartReductionRatio", "nan"), "strictly between 0 and 1"),
        (("--visualPrune", "--dartPivotTextTokens", "-1"), "0 to 64"),
        (("--visualPruneAlgo", "random", "--dartPivotTextTokens", "1"), "belongs to"),
        (("--visualPrune", "--visualPruneOption", "seed=1"), "no option 'seed'"),
        (("--visualPruneOption", "seed"), "NAME=VALUE"),
        (("--visualPruneOption", "reduction_ratio=0.5"), "a flag of its own"),
        (("--visualPruneOption", "auto_min=0.9"), "0 <= auto_min < auto_max < 1"),
        (("--batchSize", "99"), "--max-batch"),
        (("--batchSize", "0"), "at least 1"),
        (("--warmup", "-1"), "at least 0"),
        (("--profileOutputFile", "no/such/folder/p.json"), "folder does not exist"),
        (("--device", "cuda"), "CPU only"),
    ],
)
def test_wrong_usage_is_one_line_and_status_two(
    command: Command, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], expected: str
) -> None:
    status, document = command([{"messages": [{"role": "user", "content": "hello"}]}], *flags)
    assert (status, document) == (2, {})
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and expected in line


def test_unusable_files_are_named(
    engines: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"requests": [\n  {"messages": }\n]}', encoding="utf-8")
    fine = tmp_path / "fine.json"
    fine.write_text('{"requests": [{"messages": [{"role": "user", "content": "hi"}]}]}')
    llm, visual = engines["onnxruntime"] / "llm", engines["onnxruntime"] / "visual"
    cases = [
        (llm, visual, broken, 2, "line 2"),
        (llm, visual, tmp_path / "absent.json", 2, "absent.json"),
        (tmp_path, visual, fine, 1, "manifest.json"),
        (visual, llm, fine, 1, "'visual' engine"),
    ]
    for engine, multimodal, source, status, expected in cases:
        words = ("--engineDir", engine, "--multimodalEngineDir", multimodal, "--inputFile", source)
        found = main([*map(str, words), "--outputFile", str(tmp_path / "out.json")])
        (line,) = capsys.readouterr().err.splitlines()
        assert found == status
        assert expected in line
    assert not (tmp_path / "out.json").exists()


def test_a_full_disk_is_one_line(
    command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    request = [{"messages": [{"role": "user", "content": "How many stars are there?"}]}]
    assert command(request)[0] == 0
    monkeypatch.setattr("edgevlm.runtime.atomic_file.os.fsync", full)
    assert command(request) == (2, {})
    assert "No space left on device" in capsys.readouterr().err


def test_a_full_disk_leaves_no_half_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    target = tmp_path / "output.json"
    target.write_text("old", encoding="utf-8")
    monkeypatch.setattr("edgevlm.runtime.atomic_file.os.fsync", full)
    with pytest.raises(UsageError, match="No space left"):
        write_atomically(target, "new" * 1000)
    assert target.read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["output.json"]
