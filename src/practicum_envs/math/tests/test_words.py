import re
from itertools import islice

from practicum_envs.math.equation import parse_equation
from practicum_envs.math.problems import generate, tell


def test_the_sentence_says_what_the_equation_says() -> None:
    told = [p for p in islice(generate([2], "train", 0), 300) if p.in_words]
    assert len(told) > 50
    for problem in told:
        sentence = problem.statement
        numbers = [int(n) for n in re.findall(r"\d+", sentence)]
        factor, term, result = numbers
        times = "x" if "multiplied" in sentence else "/"
        sign = "+" if re.search(r"added|plus", sentence) else "-"
        said = f"{factor}x" if times == "x" else f"x/{factor}"
        assert parse_equation(f"{said} {sign} {term} = {result}") == problem.equation


def test_an_equation_is_always_told_the_same_way() -> None:
    equation = parse_equation("x/4 - 3 = 2")
    assert tell(equation) == tell(parse_equation("x/4-3=2"))


def test_different_equations_are_told_in_different_ways() -> None:
    told = [p.statement for p in islice(generate([2], "train", 0), 300) if p.in_words]
    assert len({re.sub(r"\d+", "n", sentence) for sentence in told}) > 6
