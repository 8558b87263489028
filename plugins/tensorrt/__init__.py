"""TensorRT plugins of the operators of this package."""
