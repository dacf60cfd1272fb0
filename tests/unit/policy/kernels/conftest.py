"""Kernels are tested compiled where there is a CUDA device, and interpreted where there is none."""

import importlib.util
import os

import torch

if not torch.cuda.is_available() and importlib.util.find_spec("triton") is not None:
    # Triton looks at this when it is imported, which nothing but the kernels does.
    os.environ["TRITON_INTERPRET"] = "1"
    from tests.unit.policy.kernels.interpreter import correct_the_interpreter

    correct_the_interpreter()
