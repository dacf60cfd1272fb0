"""Tones that a brief may ask for: words of which one must be there, and closing sentences."""

TONES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "warm": (
        ("welcome", "glad", "happy"),
        ("You are always welcome.", "We are glad to have you with us.", "We are happy to help."),
    ),
    "polite": (
        ("kindly", "thank", "appreciate"),
        (
            "Thank you for your help.",
            "We appreciate your patience.",
            "We kindly ask for your help.",
        ),
    ),
    "upbeat": (
        ("enjoy", "great", "fun"),
        (
            "We hope you enjoy it.",
            "It will be great to have you there.",
            "It will be a lot of fun.",
        ),
    ),
    "plain": (
        ("question", "clear", "simple"),
        ("Ask us if you have a question.", "We hope this is clear.", "We try to keep it simple."),
    ),
    "thankful": (
        ("grateful", "thank", "thankful"),
        ("We are grateful to you.", "We thank you for all you do.", "We are very thankful."),
    ),
    "sorry": (
        ("sorry", "regret", "apologize"),
        (
            "We are sorry for the trouble.",
            "We regret what has happened.",
            "We apologize to all of you.",
        ),
    ),
    "formal": (
        ("sincerely", "regards", "respect"),
        ("We thank you sincerely.", "We send you our regards.", "We write this with respect."),
    ),
}
"""By name: words to choose from, and sentences for the end that have one of them each."""

GREETINGS = ("Dear all,", "Hello everyone,", "Good day,")
"""How a letter may begin."""
