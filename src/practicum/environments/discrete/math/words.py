"""Problems told in words."""

import hashlib

from practicum.environments.discrete.math.equation import Equation

__all__ = ["tell"]

PLUS = (
    "A number is {times} and {b} is added; the result is {c}.",
    "When a number is {times} and then {b} is added, the result is {c}.",
    "A number {times}, then plus {b}, gives {c}.",
)
MINUS = (
    "A number is {times} and {b} is subtracted; the result is {c}.",
    "When a number is {times} and then {b} is subtracted, the result is {c}.",
    "A number {times}, then minus {b}, gives {c}.",
)
ALONE = ("A number {times} is {c}.",)


def tell(equation: Equation) -> str:
    """`ax + b = c` or `x/a + b = c` as a sentence; which of several is fixed by the equation.

    >>> from practicum.environments.discrete.math.parse import parse_equation
    >>> tell(parse_equation("3x + 7 = 16"))
    'When a number is multiplied by 3 and then 7 is added, the result is 16.'
    """
    left, right = equation.coefficients
    if left.x.denominator == 1:
        times = f"multiplied by {left.x}"
    else:
        times = f"divided by {left.x.denominator}"
    sentences = PLUS if left.number > 0 else MINUS if left.number < 0 else ALONE
    digest = hashlib.sha256(str(equation).encode()).digest()
    sentence = sentences[digest[0] % len(sentences)]
    return sentence.format(times=times, b=abs(left.number), c=right.number)
