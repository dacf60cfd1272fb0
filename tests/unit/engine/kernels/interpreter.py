"""Triton's interpreter made to compute as the hardware does where it does not.

It holds bfloat16 as 16 bits of an integer, which it cuts off instead of rounding, and multiplies
as integers in a dot; and it cannot read a loop's bound out of an array of one element, which numpy
no longer allows.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import triton.language as tl
from triton.runtime import interpreter

__all__ = ["correct_the_interpreter"]


def correct_the_interpreter() -> None:
    """Patch it, once and for all."""
    builder = interpreter.InterpreterBuilder
    stock_cast, stock_dot = builder.cast_impl, builder.create_dot
    stock_patch = interpreter._patch_lang_tensor

    def cast(self: Any, source: Any, target: Any) -> Any:
        kinds = (source.dtype.scalar, target.scalar)
        if kinds == (tl.float32, tl.bfloat16):
            return interpreter.TensorHandle(_rounded(source.data), tl.bfloat16)
        if kinds == (tl.bfloat16, tl.float32):
            return interpreter.TensorHandle(_widened(source.data), tl.float32)
        return stock_cast(self, source, target)

    def dot(self: Any, a: Any, b: Any, total: Any, *options: Any) -> Any:
        if a.dtype.scalar == tl.bfloat16:
            a, b = (interpreter.TensorHandle(_widened(x.data), tl.float32) for x in (a, b))
        return stock_dot(self, a, b, total, *options)

    def patch_tensor(tensor: Any, scope: Any) -> None:
        stock_patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    builder.cast_impl, builder.create_dot = cast, dot
    for name in ("create_fp_ext", "create_fp_trunc"):
        setattr(builder, name, cast)
    interpreter._patch_lang_tensor = patch_tensor


def _rounded(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """The nearest bfloat16 to each."""
    flat = torch.from_numpy(np.array(values, dtype=np.float32)).bfloat16()
    return flat.view(torch.int16).numpy().view(np.uint16)


def _widened(values: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    return (np.asarray(values).astype(np.uint32) << 16).view(np.float32)
