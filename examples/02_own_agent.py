"""An agent of your own: a Python function that talks to the model and says what its work was worth.

The task: describe a thing in small letters only. The function asks for a draft, then for a second
version of it, and its score is the share of small letters in what came back.
"""

from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import Any

import practicum as pr

THINGS = ("lamp", "river", "violin", "oak", "bridge", "kettle", "storm", "letter", "owl", "clock")
COLOURS = ("red", "old", "small", "loud")


def rows() -> Iterator[dict[str, str]]:
    """The tasks: each has a prompt, and whatever else the function wants to know."""
    for thing in THINGS:
        for colour in COLOURS:
            yield {"id": f"{colour}-{thing}", "prompt": f"Describe: a {colour} {thing}."}


async def rollout(task: pr.Task, client: Any) -> dict[str, float]:
    """One episode. `client` is an `openai.AsyncOpenAI` for this episode alone."""
    messages = [{"role": "user", "content": task.instruction}]
    texts = []
    for wish in ("", "Now in small letters only."):
        if wish:
            messages.append({"role": "user", "content": wish})
        answer = await client.chat.completions.create(model="policy", messages=messages)
        texts.append(answer.choices[0].message.content or "")
        messages.append({"role": "assistant", "content": texts[-1]})
    return {"small_letters": share_of_small_letters(texts[0]) + share_of_small_letters(texts[1])}


def share_of_small_letters(text: str) -> float:
    return sum(c.isascii() and c.islower() for c in text) / max(len(text), 1)


def main() -> None:
    with TemporaryDirectory() as folder:
        run = pr.train(
            {"name": "tasks", "data": f"{__file__}:rows"},
            agent={"name": "function", "path": f"{__file__}:rollout"},
            model="tiny",
            steps=20,
            rollouts={"tasks_per_step": 4, "group_size": 8, "max_tokens": 12},
            algorithm={"lr": 3e-3},
            eval={"n": 5, "k": 4, "temperature": 1.0},
            runs_dir=folder,
        )
        for step, report in run.evaluations.items():
            found = report.reward
            print(f"after {step} steps: {found.value:.2f} [{found.low:.2f}, {found.high:.2f}]")


if __name__ == "__main__":
    main()
