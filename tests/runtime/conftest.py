"""Property tests here are bounded by their number of examples, not by a busy machine's clock."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("runtime", deadline=None)
settings.load_profile("runtime")
