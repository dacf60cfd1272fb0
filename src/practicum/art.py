"""`import practicum.art as art`: the short name of `practicum.compat.art` and of all below it."""

import sys

from practicum.compat import art

sys.modules[__name__] = art
for _name, _module in list(sys.modules.items()):
    if _name.startswith(f"{art.__name__}."):  # else it would be loaded a second time
        sys.modules[__name__ + _name.removeprefix(art.__name__)] = _module
