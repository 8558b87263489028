"""Control over a mixture of experts: expert products, SERE re-routing, MACS capacity.

Each is an operator with one meaning and several forms: a reference in plain torch, an ONNX function
of the domain ``edgevlm`` whose body is standard ONNX, a GPU kernel, and a TensorRT plugin.
"""
