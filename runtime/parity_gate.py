"""The check a fresh TensorRT engine has to pass before it takes its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..core import EngineError
from ..core.capabilities import TITLES
from ..core.gpu import present_gpu
from ..core.manifest_file import read_manifest
from .parity import verify_engine


class ParityGate:
    """Compares a built engine with the reference, if a GPU it was built for is here.

    Args:
        allow_unverified: keep an engine that fails; its manifest says that it did.
        tell: called with one line where no comparison is possible.
    """

    def __init__(self, *, allow_unverified: bool, tell: Callable[[str], None]) -> None:
        self._allow, self._tell = allow_unverified, tell

    def __call__(self, engine_dir: Path) -> None:
        """Check the engine in ``engine_dir``.

        Raises:
            EngineError: it fails.
        """
        manifest = read_manifest(engine_dir / "llm")
        if manifest.target not in TITLES:
            return
        gpu = present_gpu()
        if gpu is None or gpu.compute_capability not in manifest.compute_capabilities:
            wanted = " or ".join(manifest.compute_capabilities)
            self._tell(
                f"not compared with the reference: no GPU of compute capability {wanted} is here;"
                " run `edgevlm verify` where the engine will run"
            )
            return
        report = verify_engine(engine_dir, accept=self._allow)
        if report.problems and not self._allow:
            raise EngineError(
                f"the engine fails its comparison with the reference and was not kept:"
                f" {'; '.join(report.problems)} (--allow-unverified keeps it nevertheless)"
            )
        for problem in report.problems:
            self._tell(f"kept although it fails its comparison with the reference: {problem}")
