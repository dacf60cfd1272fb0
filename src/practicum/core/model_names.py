"""Names of known models: the short name here and the id on the hub mean one and the same model."""

HUB_IDS: dict[str, str | None] = {
    "tiny": None,
    "smollm2-135m": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "Qwen/Qwen2.5-0.5B-Instruct": "Qwen/Qwen2.5-0.5B-Instruct",
    "Qwen/Qwen2.5-1.5B-Instruct": "Qwen/Qwen2.5-1.5B-Instruct",
    "qwen2.5-coder-1.5b": "Qwen/Qwen2.5-Coder-1.5B-Instruct",
    "Qwen/Qwen2.5-7B-Instruct": "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen2.5-32B-Instruct": "Qwen/Qwen2.5-32B-Instruct",
}
"""Known names, smallest model first, and the id of each on the hub; None for one made here."""


def model_name(name: str) -> str:
    """The name by which a model is known here, in whichever way it was named; others as they are.

    >>> model_name("HuggingFaceTB/SmolLM2-135M-Instruct"), model_name("SmolLM2-135M")
    ('smollm2-135m', 'smollm2-135m')
    >>> model_name("./HuggingFaceTB/SmolLM2-135M-Instruct"), model_name("someone/else")
    ('./HuggingFaceTB/SmolLM2-135M-Instruct', 'someone/else')
    """
    wanted = name.casefold()
    for known, hub_id in HUB_IDS.items():
        if wanted in (known.casefold(), (hub_id or known).casefold()):
            return known
    return name
