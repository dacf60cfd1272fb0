"""Chat templates for models that come without one: `chatml`, or a file of the user's."""

from pathlib import Path

from practicum.core.errors import ConfigError

CHATML = "chatml"

GIVE_TEMPLATE = (
    "choose an instruct model, such as smollm2-135m, or give the template: "
    "model.chat_template=chatml, or a .jinja file"
)
"""Ends the sentence about a model without a template."""

CHATML_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + eos_token + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""ChatML, with the model's own end token where ChatML has `<|im_end|>`: a model that was not
trained on conversations has no token of that name, and a turn must end with one token."""


def read_chat_template(named: str) -> str:
    """The Jinja source that `model.chat_template` names; empty where it names none."""
    if not named:
        return ""
    if named == CHATML:
        return CHATML_TEMPLATE
    path = Path(named).expanduser()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"model.chat_template = {named!r} is neither chatml nor a file that can be read "
            f"({error.__class__.__name__}); give the path of a .jinja file"
        ) from None
    if "messages" not in text:
        raise ConfigError(
            f"model.chat_template = {named!r} does not mention messages, so it is no chat template"
        )
    return text
