"""Secrets taken out of traces before they are stored."""

from practicum.redaction.episodes import Redactor
from practicum.redaction.patterns import redact_text

__all__ = ["Redactor", "redact_text"]
