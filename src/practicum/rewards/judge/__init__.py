"""Episodes of a group compared by a language model.

Read in this order: `prompt` (what it is shown), `answers` (how its answer is read), `ledger` (what
is remembered), `compare` (the reward), `endpoint` (a judge on a server).
"""

from practicum.rewards.judge.compare import JudgeReward
from practicum.rewards.judge.endpoint import EndpointJudge
from practicum.rewards.judge.ledger import Judgement, JudgementLedger
from practicum.rewards.judge.prompt import DEFAULT_RUBRIC

__all__ = ["DEFAULT_RUBRIC", "EndpointJudge", "JudgeReward", "Judgement", "JudgementLedger"]
