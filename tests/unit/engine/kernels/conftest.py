"""Kernels are tested compiled where there is a CUDA device, and interpreted where there is none."""

import importlib.util

import torch

if not torch.cuda.is_available() and importlib.util.find_spec("triton") is not None:
    from tests.unit.engine.kernels.interpreter import correct_the_interpreter

    correct_the_interpreter()
