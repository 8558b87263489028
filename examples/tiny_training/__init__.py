"""Training of the bundled tiny checkpoints; the entry point is ``examples/train_tiny.py``."""
