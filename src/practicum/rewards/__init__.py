"""Evidence to scores."""

from practicum.rewards.behaviour import Efficiency, TaskCompletion, ToolSuccess
from practicum.rewards.borrowed import BorrowedSandboxes
from practicum.rewards.checkpoints import AgentCompanyScore
from practicum.rewards.composite import CompositeReward, RewardPart
from practicum.rewards.execution import CodeExecution
from practicum.rewards.form import FormatCompliance, LengthPenalty, RepetitionPenalty
from practicum.rewards.function import FunctionReward
from practicum.rewards.judge import EndpointJudge, JudgementLedger, JudgeReward
from practicum.rewards.normalise import InOrder, NormalisedComponents
from practicum.rewards.outcome import OutcomeReward
from practicum.rewards.reported import ReportedScore
from practicum.rewards.syntax import SyntaxCheck
from practicum.rewards.verifiable import TurnRewards

__all__ = [
    "AgentCompanyScore",
    "BorrowedSandboxes",
    "CodeExecution",
    "CompositeReward",
    "Efficiency",
    "EndpointJudge",
    "FormatCompliance",
    "FunctionReward",
    "InOrder",
    "JudgeReward",
    "JudgementLedger",
    "LengthPenalty",
    "NormalisedComponents",
    "OutcomeReward",
    "RepetitionPenalty",
    "ReportedScore",
    "RewardPart",
    "SyntaxCheck",
    "TaskCompletion",
    "ToolSuccess",
    "TurnRewards",
]
