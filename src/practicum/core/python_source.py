"""Python text to its tree, whatever else the process does meanwhile."""

import ast
import gc
import threading
from typing import Any, Literal

ONE_AT_A_TIME = threading.Lock()


def parse_python(source: str, mode: Literal["exec", "eval"] = "exec") -> Any:
    """`ast.parse`, without the garbage collector.

    Some releases of Python 3.11 count how deep they are in a tree once for all trees: where the
    collector runs code that parses too, as a callback or a finalizer may, they raise `SystemError`,
    which is no fault of the text.
    """
    with ONE_AT_A_TIME:
        collects = gc.isenabled()
        gc.disable()
        try:
            return ast.parse(source, mode=mode)
        finally:
            if collects:
                gc.enable()
