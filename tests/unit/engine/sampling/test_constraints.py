import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from tests.unit.engine.reference import (
    ACTIONS,
    END,
    ask,
    build_engine,
    build_policy,
    row_logits,
    sample_all,
    stock_model,
)

from practicum.core.errors import EnvironmentFailure, UserError
from practicum.core.sampling import ActionForm, NextCharacters
from practicum.engine.policy import TorchPolicy
from practicum.engine.sampling.completions import ActionTrie, ChoiceWalk, GrammarMasks

ARGUMENTS = ("0", "1", "00", "01", "10", "11")
TEXTS = (
    *(f"add {a}" for a in ARGUMENTS),
    "add_all",
    "simplify",
    *(f"state {a}" for a in ARGUMENTS),
)
"""Everything that `ACTIONS` can say."""
PROMPT = (3, 1, 4, 1, 5, 9, 2, 6)
TEMPERATURE = 1.3


def spelled(text: str) -> tuple[int, ...]:
    return (*text.encode(), END)


def next_tokens(said: tuple[int, ...]) -> list[int]:
    """What may follow, found by going through every whole completion."""
    n = len(said)
    return sorted({whole[n] for t in TEXTS if (whole := spelled(t))[:n] == said and n < len(whole)})


def by_hand(stock: Any, text: str) -> float:
    """A completion's log-probability: at each token, renormalised over what may follow."""
    whole = spelled(text)
    with torch.no_grad():
        logits = row_logits(stock, [*PROMPT, *whole]).double() / TEMPERATURE
    total = 0.0
    for i, token in enumerate(whole):
        allowed = next_tokens(whole[:i])
        scores = logits[len(PROMPT) + i - 1][allowed]
        total += float(torch.log_softmax(scores, -1)[allowed.index(token)])
    return total


@pytest.fixture(scope="module")
def policy() -> TorchPolicy:
    return build_policy()


@pytest.fixture(scope="module")
def exact(policy: TorchPolicy) -> dict[str, float]:
    stock = stock_model(policy)
    return {text: by_hand(stock, text) for text in TEXTS}


async def test_completions_have_the_probabilities_of_brute_force(
    policy: TorchPolicy, exact: dict[str, float]
) -> None:
    assert sum(map(math.exp, exact.values())) == pytest.approx(1.0, abs=1e-6)
    engine = build_engine(policy)
    requests = [
        ask(*PROMPT, actions=ACTIONS, temperature=TEMPERATURE, max_tokens=20, seed=s)
        for s in range(400)
    ]
    completions = await sample_all(engine, requests)
    for c in completions:
        assert c.token_ids == spelled(c.text)
        assert sum(c.logprobs) == pytest.approx(exact[c.text], abs=1e-5)
        assert c.finished
        assert c.ended_turn
        allowed = [next_tokens(c.token_ids[:i]) for i in range(len(c.token_ids))]
        assert [list(ids) for ids in c.choices] == allowed
        assert list(c.loss_mask) == [len(ids) > 1 for ids in allowed]
    counts = Counter(c.text for c in completions)
    expected = np.array([math.exp(p) for p in exact.values()])
    expected *= len(requests) / expected.sum()
    common = expected >= 5
    seen = np.array([counts[text] for text in exact])
    bins = [*seen[common], seen[~common].sum()], [*expected[common], expected[~common].sum()]
    assert stats.chisquare(*bins).pvalue > 0.001


async def test_forced_tokens_cost_no_pass_through_the_model(policy: TorchPolicy) -> None:
    engine = build_engine(policy)
    for seed in range(6):
        engine.forget()
        before = engine.passes
        completion = await engine.sample(ask(*PROMPT, actions=ACTIONS, max_tokens=20, seed=seed))
        assert engine.passes - before == sum(completion.loss_mask) < len(completion.token_ids)


async def test_an_action_without_alternative_costs_nothing_at_all(policy: TorchPolicy) -> None:
    engine = build_engine(policy)
    completion = await engine.sample(
        ask(*PROMPT, actions=(ActionForm(name="simplify"),), max_tokens=20)
    )
    assert engine.computed_tokens == 0
    assert completion.text == "simplify"
    assert completion.token_ids == spelled("simplify")
    assert set(completion.logprobs) == {0.0}
    assert not any(completion.loss_mask)


class WordTokenizer:
    """Knows some words whole and every character by its code."""

    WORDS = ("add", "add_terms", "_terms", "sub", "simplify", "_", "terms")

    def encode(
        self, text: str, *, add_special_tokens: bool = False, split_special_tokens: bool = True
    ) -> list[int]:
        assert (split_special_tokens, add_special_tokens) == (True, False)
        ids = []
        while text:
            word = max((w for w in self.WORDS if text.startswith(w)), key=len, default="")
            ids.append(1000 + self.WORDS.index(word) if word else ord(text[0]))
            text = text[len(word) or 1 :]
        return ids

    def decode(self, ids: list[int], *, clean_up_tokenization_spaces: bool) -> str:
        return "".join(self.WORDS[i - 1000] if i >= 1000 else chr(i) for i in ids)


def everything(trie: ActionTrie, said: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Each completion that a trie allows, found by walking it again from the start."""
    walk = ChoiceWalk(trie)
    for token in said:
        assert token in walk.allowed()
        walk.advance(token)
    if walk.done:
        yield said
        return
    for token in walk.allowed():
        yield from everything(trie, (*said, token))


def completions_of(*forms: ActionForm) -> set[tuple[int, ...]]:
    found = list(everything(ActionTrie(forms, WordTokenizer(), END)))
    assert len(found) == len(set(found))
    return set(found)


def test_a_trie_allows_the_actions_and_nothing_else() -> None:
    words = WordTokenizer()
    names = ("add", "add_terms", "adds", "sub", "simplify", "simplif", "")
    expected = {(*words.encode(n), END) for n in names}
    assert completions_of(*(ActionForm(name=n) for n in names)) == expected


def test_arguments_follow_one_space_and_their_own_syntax() -> None:
    found = completions_of(*ACTIONS[:2], ActionForm(name="add"))
    word, space = 1000 + WordTokenizer.WORDS.index("add"), ord(" ")
    expected = {(word, space, *map(ord, a), END) for a in ARGUMENTS}
    assert {c for c in found if space in c} == expected
    assert (word, END) in found


def test_choices_are_in_ascending_order_without_doubles() -> None:
    forms = tuple(ActionForm(name=n) for n in ("zeta", "beta", "alpha", "beta"))
    allowed = ChoiceWalk(ActionTrie(forms, WordTokenizer(), END)).allowed()
    assert allowed == (ord("a"), ord("b"), ord("z"))


def walk_to(argument: Callable[[str], NextCharacters], said: str) -> tuple[int, ...]:
    walk = ChoiceWalk(
        ActionTrie((ActionForm(name="add", argument=argument),), WordTokenizer(), END)
    )
    for token in (1000, ord(" "), *map(ord, said)):
        walk.allowed()
        walk.advance(token)
    return walk.allowed()


def test_a_syntax_that_fails_or_leads_nowhere_is_the_environments_failure() -> None:
    def fails(written: str) -> NextCharacters:
        raise ZeroDivisionError("by zero")

    def stops(written: str) -> NextCharacters:
        return NextCharacters(allowed="1" if len(written) < 2 else "", may_end=False)

    with pytest.raises(EnvironmentFailure, match="'add': ZeroDivisionError: by zero"):
        walk_to(fails, "")
    with pytest.raises(EnvironmentFailure, match="'add' has no way on after '11'"):
        walk_to(stops, "11")


class Allowing:
    """A grammar's walk that always allows the same tokens of a vocabulary of 8."""

    def __init__(self, *tokens: int, done: bool = False) -> None:
        self.tokens, self.done = tokens, done

    def allowed(self) -> Any:
        return np.isin(np.arange(8), self.tokens)

    def advance(self, token: int) -> None:
        raise AssertionError("nothing is sampled here")


@pytest.mark.parametrize(
    ("walk", "vocabulary", "expected"),
    [
        (Allowing(1, 3), 8, [1, 3]),
        (Allowing(1, 3), 12, [1, 3]),  # a model with more tokens than its tokenizer
        (Allowing(1, 7), 7, [1]),  # or fewer
        (Allowing(1, 5), 8, [1, 6]),  # whichever end is allowed, the template's own is drawn
        (Allowing(6), 8, [6]),
        (Allowing(1, 3, done=True), 8, [6]),
    ],
)
def test_a_grammar_becomes_a_mask_over_the_models_vocabulary(
    walk: Allowing, vocabulary: int, expected: list[int]
) -> None:
    mask = GrammarMasks(6, {5, 6}).of(walk, vocabulary)
    assert mask.shape == (vocabulary,)
    assert np.flatnonzero(mask).tolist() == expected


def test_a_grammar_that_allows_nothing_is_refused() -> None:
    for walk in (Allowing(), Allowing(7)):
        with pytest.raises(UserError, match="allows no token"):
            GrammarMasks(6, {5, 6}).of(walk, 7)


@pytest.mark.parametrize("text", TEXTS)
def test_a_turn_is_spelled_as_it_would_have_been_chosen(text: str) -> None:
    found = build_policy().sampler.spell(text, ACTIONS)
    assert found.token_ids == spelled(text)
    among = [tuple(next_tokens(spelled(text)[:n])) for n in range(len(found.token_ids))]
    assert list(found.choices) == among
    assert found.loss_mask == tuple(len(allowed) > 1 for allowed in among)
    assert found.text == text


def test_what_is_no_action_cannot_be_spelled() -> None:
    with pytest.raises(UserError, match="'add 2' is none of the actions"):
        build_policy().sampler.spell("add 2", ACTIONS)


def test_free_text_is_spelled_by_the_tokenizer() -> None:
    found = build_policy().sampler.spell("add 2", ())
    assert (found.token_ids, found.choices) == (spelled("add 2"), ())
    assert all(found.loss_mask)
