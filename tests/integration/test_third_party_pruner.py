"""A pruner in a package of its own, found by its entry point and selected on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from PIL import Image

from .conftest import samples

MODULE = """
import torch
from edgevlm.pruners import PruneRequest, VisualTokenPruner

class FirstRows(VisualTokenPruner):
    '''Keeps the first rows of every span.'''

    def select(self, request: PruneRequest) -> torch.Tensor:
        spans = zip(request.io.spans, request.quotas)
        return torch.cat([torch.arange(span.start, span.start + quota) for span, quota in spans])
"""
ENTRY_POINTS = "[edgevlm.visual_pruners]\nfirst-rows = first_rows:FirstRows\n"
RUN = "import sys; sys.path.insert(0, {path!r}); from edgevlm.cli.{module} import main; {call}"


def run(package: Path, module: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    code = RUN.format(path=str(package), module=module, call=f"sys.exit(main({arguments!r}))")
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_selected_from_the_command_line(engines: dict[str, Path], tmp_path: Path) -> None:
    package = tmp_path / "site"
    information = package / "first_rows-1.0.dist-info"
    information.mkdir(parents=True)
    (package / "first_rows.py").write_text(MODULE, encoding="utf-8")
    (information / "METADATA").write_text("Name: first-rows\nVersion: 1.0\n", encoding="utf-8")
    (information / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")

    listed = run(package, "main", ["pruners"])
    assert "first-rows   Keeps the first rows of every span." in listed.stdout

    sample = samples(1)[0]
    Image.fromarray(sample.images[0]).save(tmp_path / "scene.png")
    content = [{"type": "image", "image": "scene.png"}, {"type": "text", "text": sample.question}]
    requests = {"requests": [{"messages": [{"role": "user", "content": content}]}]}
    (tmp_path / "requests.json").write_text(json.dumps(requests), encoding="utf-8")
    engine = engines["onnxruntime"]
    words = (
        *("--engineDir", engine / "llm", "--multimodalEngineDir", engine / "visual"),
        *("--inputFile", tmp_path / "requests.json", "--outputFile", tmp_path / "out.json"),
        *("--visualPrune", "--visualPruneAlgo", "first-rows", "--dartReductionRatio", "0.5"),
    )
    done = run(package, "llm_inference", [str(word) for word in words])
    assert done.returncode == 0, done.stderr
    response = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["responses"][0]
    report = response["usage"]["visual_pruning"]
    assert report["algorithm"] == "first-rows"
    assert (report["visual_tokens_before"], report["visual_tokens_after"]) == (64, 32)
