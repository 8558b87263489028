"""The commands ``edgevlm`` and ``llm_inference``."""
