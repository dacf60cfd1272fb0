"""Whether a .gguf file splits text, ends turns and renders conversations as its model does."""

from collections.abc import Mapping, Sequence

from practicum.core.errors import UserError
from practicum.engine.models.gguf_writing import GgufFacts
from practicum.engine.models.llama_cpp import LlamaCpp
from practicum.engine.models.llama_server import LlamaServer
from practicum.engine.models.loading import LoadedModel


def check_tokenizer(facts: GgufFacts, loaded: LoadedModel, name: str) -> None:
    """Refuse a file whose tokenizer, template or special tokens are another than the model's."""
    tokenizer = loaded.tokenizer
    if facts.chat_template != tokenizer.chat_template:
        raise UserError(f"{name!r} has another chat template than the model; nothing was kept")
    if facts.end_id != tokenizer.eos_token_id:
        raise UserError(
            f"{name!r} ends a turn with token {facts.end_id}, the model with "
            f"{tokenizer.eos_token_id}; nothing was kept"
        )
    if tokenizer.bos_token_id is not None and facts.begin_id != tokenizer.bos_token_id:
        raise UserError(
            f"{name!r} begins with token {facts.begin_id}, the model with "
            f"{tokenizer.bos_token_id}; nothing was kept"
        )
    own = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    if tuple(own) != facts.tokens[: len(own)]:
        raise UserError(f"{name!r} has the vocabulary of another tokenizer; nothing was kept")


def check_tokens(
    model: LlamaCpp, loaded: LoadedModel, episodes: Sequence[Sequence[int]], name: str
) -> None:
    """Refuse a file in which llama.cpp splits text otherwise, or goes on where a turn ends."""
    if not model.ends_turn(loaded.codec.turn_end_id):
        end = loaded.tokenizer.convert_ids_to_tokens(loaded.codec.turn_end_id)
        raise UserError(f"with {name!r} llama.cpp does not stop at {end!r}; nothing was kept")
    for tokens in episodes:
        text = loaded.tokenizer.decode(list(tokens), skip_special_tokens=False)
        own = loaded.tokenizer.encode(text, add_special_tokens=False)
        if model.tokenise(text) != own:
            raise UserError(f"{name!r} splits text into other tokens than the model does")


def check_template(
    server: LlamaServer,
    loaded: LoadedModel,
    conversations: Sequence[Sequence[Mapping[str, str]]],
    name: str,
) -> None:
    """Refuse a file whose template llama.cpp renders otherwise than the model's tokenizer does."""
    for messages in conversations:
        own = loaded.tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True
        )
        begin = loaded.tokenizer.bos_token or ""
        # llama.cpp leaves it out where it puts it before the prompt by itself.
        if server.render(messages) not in (own, own.removeprefix(begin)):
            raise UserError(
                f"llama.cpp renders the chat template of {name!r} otherwise than the model's "
                "tokenizer does; nothing was kept"
            )
