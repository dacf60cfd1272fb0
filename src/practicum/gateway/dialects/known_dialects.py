"""Every dialect that agents may speak, by the path of its requests; a new one is a row here."""

from collections.abc import Mapping
from typing import cast

from practicum.gateway.dialects import anthropic, openai_chat, openai_completions, openai_responses
from practicum.gateway.dialects.dialect import Dialect

DIALECTS: Mapping[str, Dialect] = {
    "/chat/completions": cast(Dialect, openai_chat),
    "/responses": cast(Dialect, openai_responses),
    "/messages": cast(Dialect, anthropic),
    "/completions": cast(Dialect, openai_completions),
}
