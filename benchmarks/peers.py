"""Peers: TRL's GRPO trainer, a tokenizer that makes prompts of exact length, and a paged cache.

TRL and `datasets` are imported when a trainer is built, so that everything else runs without them.
"""

import logging
import os
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

from cases import LR, Case, peer_model
from episodes import GIVEN_TOKENS

__all__ = ["build_trainer", "paged_settings", "prompt_text", "word_tokenizer"]

PAGE_TOKENS = 256
"""Tokens of a page of the paged cache, which is its default."""


def paged_settings(case: Case) -> dict[str, int]:
    """A paged cache that holds all rows of the case at once; left alone it takes what is free."""
    logging.getLogger("ContinuousBatchingLogger").setLevel(logging.ERROR)
    longest = case.prompt + case.turns * (case.completion + GIVEN_TOKENS)
    pages = 2 + longest // PAGE_TOKENS
    return {
        "num_blocks": (case.episodes + 2) * pages,
        "max_batch_tokens": min(16_384, max(4096, case.prompts * case.prompt)),
        "max_requests_per_batch": max(16, case.episodes),
        "max_blocks_per_request": pages,
    }


def word_tokenizer(vocabulary: int) -> Any:
    """One word a token: the id 17 is the word `w17`; the last two ids are special."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {f"w{number}": number for number in range(vocabulary)}
    backend = Tokenizer(models.WordLevel(words, unk_token="w0"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=f"w{vocabulary - 1}",
        pad_token=f"w{vocabulary - 2}",
        model_max_length=1 << 20,
        clean_up_tokenization_spaces=False,
    )


def prompt_text(token_ids: Sequence[int]) -> str:
    """The text that the word tokenizer reads as these tokens."""
    return " ".join(f"w{number}" for number in token_ids)


def build_trainer(
    case: Case,
    rows: int,
    reward: Callable[..., list[float]],
    *,
    trainer_class: Callable[[Any], Any] = lambda base: base,
    rollout_func: Any = None,
) -> Any:
    """A trainer whose update takes `rows` rows, with its own optimizer, ready to train.

    Completions end only at their full length: no token counts as an end.

    Args:
        case: Whose model and sizes it has.
        rows: Rows of an update; `case.peer_batch` of them at a time, or all.
        reward: Scores completions, as TRL calls it.
        trainer_class: Makes the class to use out of TRL's own.
        rollout_func: TRL's way to sample several turns.
    """
    from datasets import Dataset
    from trl import GRPOTrainer

    at_once = case.peer_batch or rows
    if rows % at_once:
        raise ValueError(f"--peer-batch {at_once} does not divide the {rows} rows of an update")
    model = peer_model(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = trainer_class(GRPOTrainer)(
            model=model,
            reward_funcs=reward,
            args=_settings(case, rows, at_once),
            train_dataset=Dataset.from_list([{"prompt": "w1"}] * rows),
            processing_class=word_tokenizer(model.config.vocab_size),
            rollout_func=rollout_func,
        )
    trainer.eos_token_ids = [-1]
    trainer.current_gradient_accumulation_steps = rows // at_once
    trainer.create_optimizer()
    trainer.model.train()
    return trainer


def _settings(case: Case, rows: int, at_once: int) -> Any:
    from trl import GRPOConfig

    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    return GRPOConfig(
        output_dir=_folder().name,
        learning_rate=LR,
        per_device_train_batch_size=at_once,
        gradient_accumulation_steps=rows // at_once,
        num_generations=case.group,
        max_completion_length=case.completion,
        generation_kwargs={"eos_token_id": None},
        use_transformers_continuous_batching=case.trl_paged,
        transformers_continuous_batching_config=paged_settings(case) if case.trl_paged else None,
        loss_type="grpo",
        beta=0.0,
        use_cpu=case.device == "cpu",
        bf16=case.dtype == "bfloat16",
        fp16=case.dtype == "float16",
        gradient_checkpointing=False,
        disable_tqdm=True,
        report_to="none",
    )


@cache
def _folder() -> TemporaryDirectory[str]:
    """Where trainers may write; gone when the process ends."""
    return TemporaryDirectory(prefix="trainer-")
