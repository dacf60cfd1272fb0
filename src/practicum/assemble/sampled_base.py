"""The base model of a replica (`practicum serve MODEL --sampler`), and the key it is asked with."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from practicum.assemble.policies import json_grammars
from practicum.core.config.config_sections import ModelConfig
from practicum.core.errors import UserError
from practicum.core.sampling import TokenGrammar
from practicum.engine.models.loading import locate_model
from practicum.engine.planning.machine import detect_machine, placement, use_one_heap
from practicum.engine.planning.model_shapes import find_shape
from practicum.engine.planning.serving_memory import plan_serving

if TYPE_CHECKING:
    from practicum.gateway.serving.sampler_server import SampledBase

KEY_VARIABLE = "PRACTICUM_SAMPLER_KEY"


def sampler_key(file: str) -> str:
    """The key of given replicas: what the file has, or else the variable; empty for none."""
    if not file:
        return os.environ.get(KEY_VARIABLE, "")
    place = Path(file)
    if not place.is_file() or not os.access(place, os.R_OK):
        raise UserError(
            f"sampler.key_file = {file!r} is no file that can be read; name one that holds the key "
            "of the replicas"
        )
    return place.read_text(encoding="utf-8").strip()


def sampled_base(model: ModelConfig) -> "SampledBase":
    """A base model, loaded to be sampled with adapters that come and go."""
    from practicum.engine.policy import load_for_policy
    from practicum.engine.served_base import load_served_base
    from practicum.gateway.serving.sampler_server import SampledBase

    use_one_heap()  # before any other thread has one
    locate_model(model.name)
    dtype, device = placement(model)
    shape = find_shape(model.name)
    plan = plan_serving(model.name, shape, [], dtype, detect_machine(), device)
    loaded = load_for_policy(model.name, dtype, device, model.chat_template)
    base = load_served_base(loaded, plan.kv_slots)
    grammars = json_grammars(base.tokenizer)
    assert grammars is not None
    compiled = grammars()

    def grammar(source: str) -> TokenGrammar:
        return compiled.compiled(source)

    return SampledBase(
        fingerprint=base.fingerprint[:16],
        load=lambda folder: base.sampler(folder),
        grammar=grammar,
        base=base.sampler(),
    )
