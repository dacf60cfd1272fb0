"""Credit and loss, one file per method, pure functions."""

from practicum.algorithms.cispo import Cispo
from practicum.algorithms.dapo import Dapo
from practicum.algorithms.distill import Distill
from practicum.algorithms.dpo import Dpo
from practicum.algorithms.dr_grpo import DrGrpo
from practicum.algorithms.grpo import Grpo
from practicum.algorithms.gspo import Gspo
from practicum.algorithms.kto import Kto
from practicum.algorithms.likelihood import Likelihood
from practicum.algorithms.ppo import Ppo
from practicum.algorithms.reinforce_pp import ReinforcePlusPlus
from practicum.algorithms.rloo import Rloo
from practicum.algorithms.sft import Sft
from practicum.algorithms.truncation import Truncated

__all__ = [
    "Cispo",
    "Dapo",
    "Distill",
    "Dpo",
    "DrGrpo",
    "Grpo",
    "Gspo",
    "Kto",
    "Likelihood",
    "Ppo",
    "ReinforcePlusPlus",
    "Rloo",
    "Sft",
    "Truncated",
]
