"""`import practicum.art as art`: the short name of `practicum.compat.art`."""

import sys

from practicum.compat import art

sys.modules[__name__] = art
