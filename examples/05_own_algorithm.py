"""An algorithm of your own: GRPO in which what went badly counts less than what went well.

practicum train math algorithm=examples/05_own_algorithm.py:Hopeful algorithm.bad=0.25
"""

from dataclasses import replace
from tempfile import TemporaryDirectory

import torch
from pydantic import Field

import practicum as pr
from practicum.training.algorithms.grpo import Grpo


class Hopeful(Grpo):
    """GRPO, with its own option beside its code."""

    name = "hopeful"

    class Options(pr.GroupConfig):
        """GRPO's options, and one more."""

        bad: float = Field(default=0.5, ge=0.0)
        """What a turn that went worse than the others of its group counts."""

    def own_loss(self, terms: pr.LossTerms) -> pr.LossReport:
        """GRPO's loss of the advantages A, where those below zero are `bad` A."""
        factor = torch.where(terms.advantages < 0, self.config.bad, 1.0)
        return super().own_loss(replace(terms, advantages=factor * terms.advantages))


def main() -> None:
    small = {"tasks_per_step": 2, "group_size": 4}
    with TemporaryDirectory() as folder:
        options = {"model": "tiny", "steps": 2, "rollouts": small, "eval": {"n": 4}}
        own = {"name": Hopeful, "bad": 0.25}
        print(pr.train("math", algorithm=own, runs_dir=folder, **options))


if __name__ == "__main__":
    main()
