"""Triton kernels for NVIDIA GPUs: what a decoder does between its matrix products.

Import the modules of this folder only where they will run: they load Triton, which not every install
has. All of them write tensors of their own, wait for nothing on the host, and give the same bits for
the same input, so that they can be captured in a CUDA graph and replayed.
"""
