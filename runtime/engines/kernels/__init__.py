"""Triton kernels of the torch backend's fused language model.

Importing this package imports no Triton; its modules do. What each kernel computes is written in
plain torch in :mod:`edgevlm.runtime.engines.torch_steps`.
"""
