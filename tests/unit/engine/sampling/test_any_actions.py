"""Any actions with any tokenizer: what is spelled, walked and read back is the action itself."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from practicum.core.errors import UserError
from practicum.core.sampling import ActionForm, NextCharacters
from practicum.engine.models.catalog import find_known
from practicum.engine.models.loading import cached_folder, load_tokenizer
from practicum.engine.sampling.completions import ActionTrie, ChoiceWalk, check_actions, spell

TEXT = ["take key", "open the door", "add 12", "Say “hello”, then go north", "north south west"] * 9
END = "<|im_end|>"


def trained(model: Any, trainer: Any, *, byte_level: bool) -> Any:
    """A small tokenizer as models have them: byte-level BPE, or unigram with word marks."""
    backend = Tokenizer(model)
    if byte_level:
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        backend.decoder = decoders.Metaspace()
    backend.train_from_iterator(TEXT, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END, unk_token="<unk>")


@cache
def tokenizer(name: str) -> Any:
    if name == "bpe":
        first = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=320,
            special_tokens=[END, "<unk>"],
            initial_alphabet=first,
            show_progress=False,
        )
        return trained(models.BPE(), trainer, byte_level=True)
    if name == "unigram":
        unigrams = trainers.UnigramTrainer(
            vocab_size=90, special_tokens=[END, "<unk>"], unk_token="<unk>", show_progress=False
        )
        return trained(models.Unigram(), unigrams, byte_level=False)
    if name == "lowering":
        lowering = tokenizer("bpe").__class__(
            tokenizer_object=Tokenizer.from_str(tokenizer("bpe").backend_tokenizer.to_str()),
            eos_token=END,
        )
        lowering.backend_tokenizer.normalizer = normalizers.Lowercase()
        return lowering
    return load_tokenizer(name)


def has_smollm2() -> bool:
    known = find_known("smollm2-135m")
    return known is not None and cached_folder(known) is not None


TOKENIZERS = [
    "tiny",
    "bpe",
    pytest.param(
        "smollm2-135m",
        marks=[
            pytest.mark.smollm2,
            pytest.mark.skipif(not has_smollm2(), reason="practicum models pull smollm2-135m"),
        ],
    ),
]
WORDS = [
    "take",
    "take key",
    "take key 2",
    "tak",
    "north",
    "go north",
    "go  north",
    "'key'",
    "“ü”",
    END,
]
names = st.one_of(
    st.sampled_from(WORDS),
    st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=12),
).filter(lambda name: name == name.strip())
digits = st.text("0123456789 -é€", max_size=4)


def few_digits(written: str) -> NextCharacters:
    return NextCharacters(allowed="0123456789 -é€" if len(written) < 4 else "", may_end=True)


def trie_of(name: str, *forms: ActionForm) -> ActionTrie:
    found = tokenizer(name)
    return ActionTrie(forms, found, found.convert_tokens_to_ids(END))


def walked(trie: ActionTrie, tokens: list[int]) -> str | None:
    walk = ChoiceWalk(trie)
    for token in tokens:
        assert token in walk.allowed()
        walk.advance(token)
    return walk.text


@pytest.mark.parametrize("name", TOKENIZERS)
@given(chosen=st.lists(names, min_size=1, max_size=6, unique=True))
def test_any_names_are_told_apart_by_any_tokenizer(name: str, chosen: list[str]) -> None:
    trie = trie_of(name, *(ActionForm(name=one) for one in chosen))
    for one in chosen:
        tokens, choices = spell(trie, one)
        assert walked(trie, tokens) == one
        assert len(tokens) == len(choices) <= trie.longest
        assert all(token in among for token, among in zip(tokens, choices, strict=True))


@pytest.mark.parametrize("name", TOKENIZERS)
@given(
    plain=st.lists(names, max_size=4, unique=True),
    taking=st.lists(names, min_size=1, max_size=3, unique=True),
    argument=digits,
)
def test_arguments_follow_any_name_even_one_that_begins_another(
    name: str, plain: list[str], taking: list[str], argument: str
) -> None:
    forms = [ActionForm(name=one) for one in plain]
    forms += [ActionForm(name=one, argument=few_digits) for one in taking]
    trie = trie_of(name, *forms)
    for turn in (*plain, *(f"{one} {argument}" for one in taking)):
        assert walked(trie, spell(trie, turn)[0]) == turn


@pytest.mark.parametrize("name", TOKENIZERS)
@given(chosen=st.lists(names, min_size=1, max_size=4, unique=True), other=names)
def test_a_turn_that_is_none_of_them_is_refused(name: str, chosen: list[str], other: str) -> None:
    assume(other not in chosen)
    trie = trie_of(name, *(ActionForm(name=one) for one in chosen))
    with pytest.raises(UserError, match="none of the actions"):
        spell(trie, other)


def every_end(trie: ActionTrie, said: tuple[int, ...] = ()) -> Iterator[str]:
    walk = ChoiceWalk(trie)
    for token in said:
        walk.allowed()
        walk.advance(token)
    if walk.text is not None:
        yield walk.text
        return
    for token in walk.allowed():
        yield from every_end(trie, (*said, token))


@pytest.mark.parametrize("name", ["tiny", "bpe", "unigram"])
def test_every_way_through_names_that_begin_each_other_ends_at_one_of_them(name: str) -> None:
    words = ["take", "take key", "take door", "north"]
    assert sorted(every_end(trie_of(name, *(ActionForm(name=w) for w in words)))) == sorted(words)


def test_a_name_and_an_argument_that_read_alike_are_both_there() -> None:
    def key_or_map(written: str) -> NextCharacters:
        going = [word[len(written)] for word in ("key", "map") if word != written
                 and word.startswith(written)]  # fmt: skip
        return NextCharacters(allowed="".join(going), may_end=written in ("key", "map"))

    forms = (ActionForm(name="take key"), ActionForm(name="take", argument=key_or_map))
    assert set(every_end(trie_of("tiny", *forms))) == {"take key", "take map"}


def test_a_tokenizer_that_marks_words_writes_names_with_spaces_and_arguments() -> None:
    def two_digits(written: str) -> NextCharacters:
        return NextCharacters(allowed="12" if len(written) < 2 else "", may_end=bool(written))

    trie = trie_of(
        "unigram", ActionForm(name="take key"), ActionForm(name="add", argument=two_digits)
    )
    for turn in ("take key", "add 1", "add 12"):
        assert walked(trie, spell(trie, turn)[0]) == turn


def test_names_that_a_tokenizer_does_not_tell_apart_are_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"'Take' and 'take' with the same tokens; give one"):
        trie_of("lowering", ActionForm(name="Take"), ActionForm(name="take"))
    assert walked(trie_of("lowering", ActionForm(name="Take")), []) is None
    trie = trie_of("lowering", ActionForm(name="Take"), ActionForm(name="Put"))
    assert walked(trie, spell(trie, "Take")[0]) == "Take"


def test_actions_that_a_model_could_not_choose_are_refused_before_it_is_loaded() -> None:
    def accented(written: str) -> NextCharacters:
        return NextCharacters(allowed="é", may_end=True)

    tiny = tokenizer("tiny")
    check_actions((ActionForm(name="take key"), ActionForm(name="say", argument=accented)), tiny, 9)
    with pytest.raises(UserError, match=r"'take key' takes 9 .* write rollouts.max_tokens=9"):
        check_actions((ActionForm(name="take"), ActionForm(name="take key")), tiny, 8)
    with pytest.raises(UserError, match="no token for the character 'é' of an action's argument"):
        check_actions((ActionForm(name="say", argument=accented),), tokenizer("unigram"), 64)
