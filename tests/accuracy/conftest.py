"""Makes the training example importable: it is a script beside the packages, not one of them."""

import sys
from pathlib import Path

import torch

# The networks are small: more threads cost more than they gain.
torch.set_num_threads(1)
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
