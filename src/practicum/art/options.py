"""ART's options of training, as words of a Practicum config."""

from collections.abc import Mapping
from typing import Any

from practicum.art.types import LEARNING_RATE
from practicum.core.errors import UserError

__all__ = ["model_words", "read_options"]

LOSSES = {"grpo": "grpo", "ppo": "grpo", "cispo": "cispo"}
"""ART's names of losses; its `ppo` is the clipped ratio that GRPO has, without a value head."""

LEVELS = {"token": None, "sequence": "gspo", "geometric_average": "gspo"}
"""What a ratio is taken of, and the method that takes it so where it is not the loss's own."""

INERT: dict[str, Any] = {
    "verbose": ...,
    "adam_params": None,
    "advantage_balance": 0.0,
    "allow_training_without_logprobs": False,
    "grad_accumulation_sequences": ...,
    "kimi_k2_tau": None,
    "kl_penalty_reference_step": None,
    "kl_ref_adapter_path": None,
    "logprob_calculation_chunk_size": ...,
    "loss_fn_config": None,
    "mask_prob_ratio": False,
    "max_negative_advantage_importance_sampling_weight": None,
    "num_trajectories_learning_rate_multiplier_power": 0.0,
    "packed_sequence_length": ...,
    "plot_tensors": False,
    "precalculate_logprobs": ...,
    "save_checkpoint": True,
    "scale_learning_rate_by_reward_std_dev": False,
    "truncated_importance_sampling": ...,
}
"""Options of ART that are taken at the value given, where they change nothing; `...` is any value:
these are about memory, packing and sampler mismatch, which are dealt with otherwise here."""

COMMON = ("lr", "max_grad_norm", "weight_decay", "micro_batch_tokens")
"""Options that every algorithm takes."""

TAKEN = (
    "learning_rate",
    "algorithm",
    "loss_fn",
    "importance_sampling_level",
    "normalize_advantages",
    "scale_rewards",
    "epsilon",
    "epsilon_high",
    "kl_penalty_coef",
    "beta",
)


def read_options(options: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The `algorithm` of a config: the options of a call over what was chosen before.

    Args:
        options: As ART's `backend.train` and `TrainConfig` name them.
        chosen: An `algorithm` as a config names it.
    """
    _refuse_unknown(options)
    algorithm: dict[str, Any] = {"name": "grpo", **chosen}
    if "algorithm" in options:
        kept = {key: v for key, v in chosen.items() if key in COMMON}
        algorithm = {**kept, "name": options["algorithm"]}
    if "loss_fn" in options:
        algorithm["name"] = _one_of(LOSSES, "loss_fn", options["loss_fn"])
    level = _one_of(
        LEVELS, "importance_sampling_level", options.get("importance_sampling_level", "token")
    )
    algorithm["name"] = level or algorithm["name"]
    if not options.get("normalize_advantages", True) or not options.get("scale_rewards", True):
        algorithm["scale"] = "none"
    for theirs, ours in (("epsilon", "clip"), ("epsilon_high", "clip_high")):
        if options.get(theirs) is not None:
            algorithm[ours] = options[theirs]
    if "clip_high" in algorithm and algorithm["name"] == "grpo":
        algorithm["name"] = "dapo"  # GRPO with bounds of its own on either side
    if options.get("kl_penalty_coef"):
        algorithm |= {"kl": options["kl_penalty_coef"], "kl_in": "reward"}
    elif options.get("beta"):
        algorithm |= {"kl": options["beta"], "kl_in": "loss"}
    rate = options.get("learning_rate", algorithm.get("lr", LEARNING_RATE))
    return {**algorithm, "lr": rate}


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name in TAKEN:
            continue
        if name not in INERT:
            raise UserError(
                f"train has no option {name!r}; it takes {', '.join(TAKEN)}, and of ART's others "
                "those that docs/art.md lists"
            )
        if INERT[name] is not ... and value not in (None, INERT[name]):
            raise UserError(
                f"train cannot do {name}={value!r}, which only ART does; leave it out, or look in "
                "docs/art.md for what is covered"
            )


def _one_of(known: Mapping[str, Any], option: str, value: Any) -> Any:
    if value not in known:
        raise UserError(f"{option}={value!r} is not known; choose one of {', '.join(known)}")
    return known[value]


PEFT = {"r": "r", "lora_alpha": "alpha", "lora_dropout": "dropout", "target_modules": "targets"}
TRAINER = {"learning_rate": "lr", "max_grad_norm": "max_grad_norm", "weight_decay": "weight_decay"}


def model_words(internal: Mapping[str, Any] | None) -> dict[str, Any]:
    """What ART's `_internal_config` says of the adapter and the optimizer, as a config says it.

    Its engine and initialisation arguments are about vLLM and Unsloth, which are not used here.

    >>> model_words({"peft_args": {"r": 4, "lora_alpha": 8}, "engine_args": {"max_num_seqs": 4}})
    {'lora': {'r': 4, 'alpha': 8}}
    """
    given = internal or {}
    words: dict[str, Any] = {}
    for part, names, ours in (("peft_args", PEFT, "lora"), ("trainer_args", TRAINER, "algorithm")):
        found = {names[key]: v for key, v in (given.get(part) or {}).items() if key in names}
        if found:
            words[ours] = found
    return words
