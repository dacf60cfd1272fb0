"""Answers that are not what was asked for: one sentence, a status, a code."""

__all__ = ["Refusal"]


class Refusal(Exception):
    """A request that is not carried out; every protocol words it in its own way."""

    def __init__(self, sentence: str, *, status: int, code: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status
        """As HTTP has it."""
        self.code = code
        """As OpenEnv's WebSocket messages have it."""

    @classmethod
    def invalid(cls, sentence: str) -> "Refusal":
        """The request itself is wrong."""
        return cls(sentence, status=422, code="VALIDATION_ERROR")

    @classmethod
    def unknown(cls, sentence: str) -> "Refusal":
        """It asks for something that is not there, or no longer."""
        return cls(sentence, status=404, code="SESSION_ERROR")

    @classmethod
    def conflict(cls, sentence: str) -> "Refusal":
        """What it asks for cannot be done in the state things are in."""
        return cls(sentence, status=409, code="SESSION_ERROR")

    @classmethod
    def full(cls, most: int) -> "Refusal":
        """There is no room for one more episode now."""
        return cls(
            f"{most} episodes are under way, which is the most this server holds; try again when "
            "one has ended, or serve with a larger --max-episodes",
            status=429,
            code="CAPACITY_REACHED",
        )

    @classmethod
    def failed(cls, sentence: str) -> "Refusal":
        """The environment failed: the episode says nothing about who acted in it."""
        return cls(sentence, status=502, code="EXECUTION_ERROR")
