"""TensorRT's Python interface as far as this project uses it, on a CPU.

It accepts what the documentation allows and refuses what it forbids: a KV cache that is not a
network input of static length, a cache output bound elsewhere than its input, shapes outside a
profile, unknown tensor names, shapes or addresses never set, plans of another version or GPU, work
off the stream, graphs captured without a warm-up, activation memory too small. Networks run
through ONNX Runtime, with the semantics their *layers* say, not those of the ONNX file: an
attention whose lengths were never set attends without them, as TensorRT's would.

Plugins have rules of their own: :mod:`.plugins` and :mod:`.quick` call them as a builder and a
runtime do. In a network that is run, they compute what their operators mean.
"""

from .device import FakeDevice
from .library import FakeTensorRT

__all__ = ["FakeDevice", "FakeTensorRT"]
