"""Messages to tokens."""

from practicum.chat.template import ChatTokenizer, TemplateCodec

__all__ = ["ChatTokenizer", "TemplateCodec"]
