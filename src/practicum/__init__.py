"""Practicum trains the model that does the work, by doing the work.

import practicum as pr

pr.check("math")                                   # is the environment fit to train on?
run = pr.train("math", model="tiny", steps=12)     # or a class of your own
print(pr.evaluate(run, n=50, against="base"))      # held-out, with intervals
"""

import os

# Workers of OpenMP that wait for each other ask again and again whether the others are done, by
# default for so long that beside a busy program they use up the time they have for work. Asking
# this often is as fast where nothing else runs. It is read when torch is loaded.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")

TYPE_CHECKING = False  # importing it from `typing` would load more than all of this
if TYPE_CHECKING:
    from practicum.api import (
        Chart,
        Evaluated,
        Played,
        Records,
        Run,
        check,
        evaluate,
        load,
        models,
        play,
        train_async,
        trust,
    )
    from practicum.compat.pipeline import AgenticTrainer, TrainingPipeline
    from practicum.core.checkpoint import Checkpoint, Comparison, EvalReport, Interval
    from practicum.core.config.algorithm_config import GroupConfig, OnlineConfig
    from practicum.core.config.config_sections import ConfigModel
    from practicum.core.config.run_config import RunConfig
    from practicum.core.errors import (
        AgentFailure,
        ConfigError,
        EnvironmentFailure,
        PracticumError,
        UserError,
    )
    from practicum.core.interfaces import (
        Agent,
        Conversation,
        DiscreteSession,
        Environment,
        GroupReward,
        Observation,
        Reward,
        Sampler,
        Sandbox,
        Session,
    )
    from practicum.core.loss import LossReport, LossTerms
    from practicum.core.sample import Credit, Episode, Estimates, Group
    from practicum.core.sampling import ActionForm, Completion, NextCharacters, SamplingParams
    from practicum.core.score import Score
    from practicum.core.task import Outcome, Split, Task
    from practicum.core.trace import Message, StopReason, ToolCall, ToolSpec, Trace
    from practicum.environments.checker import EnvironmentCheck
    from practicum.environments.gym_environment import wrap
    from practicum.environments.nested import NestedSession, SubTask
    from practicum.environments.registry import build_environment
    from practicum.evaluation.study_report import StudyComparison, StudyReport
    from practicum.traces.recording import Recorder, record
    from practicum.training.algorithms.credit import GroupMethod, OnlineMethod
    from practicum.workflows.exports import Export, export
    from practicum.workflows.feedback_loop import Learned, learn, served_model
    from practicum.workflows.own_loop import Policy
    from practicum.workflows.scaffold import new
    from practicum.workflows.studies import Study, compare, load_study, train

__version__ = "0.1.0"

__all__ = [
    "ActionForm",
    "Agent",
    "AgentFailure",
    "AgenticTrainer",
    "Chart",
    "Checkpoint",
    "Comparison",
    "Completion",
    "ConfigError",
    "ConfigModel",
    "Conversation",
    "Credit",
    "DiscreteSession",
    "Environment",
    "EnvironmentCheck",
    "EnvironmentFailure",
    "Episode",
    "Estimates",
    "EvalReport",
    "Evaluated",
    "Export",
    "Group",
    "GroupConfig",
    "GroupMethod",
    "GroupReward",
    "Interval",
    "Learned",
    "LossReport",
    "LossTerms",
    "Message",
    "NestedSession",
    "NextCharacters",
    "Observation",
    "OnlineConfig",
    "OnlineMethod",
    "Outcome",
    "Played",
    "Policy",
    "PracticumError",
    "Recorder",
    "Records",
    "Reward",
    "Run",
    "RunConfig",
    "Sampler",
    "SamplingParams",
    "Sandbox",
    "Score",
    "Session",
    "Split",
    "StopReason",
    "Study",
    "StudyComparison",
    "StudyReport",
    "SubTask",
    "Task",
    "ToolCall",
    "ToolSpec",
    "Trace",
    "TrainingPipeline",
    "UserError",
    "__version__",
    "build_environment",
    "check",
    "compare",
    "evaluate",
    "export",
    "learn",
    "load",
    "load_study",
    "models",
    "new",
    "play",
    "record",
    "served_model",
    "train",
    "train_async",
    "trust",
    "wrap",
]

_MODULES = (
    *("core.task", "core.trace", "core.sample", "core.sampling", "core.score", "core.errors"),
    *("core.checkpoint", "core.interfaces", "core.config.config_sections"),
    *("core.config.run_config", "environments.checker", "traces.recording"),
    *("environments.registry", "environments.nested"),
    *("workflows.studies", "api", "workflows.own_loop", "compat.pipeline", "workflows.exports"),
    *("workflows.feedback_loop", "workflows.scaffold", "environments.gym_environment"),
    *("core.loss", "core.config.algorithm_config", "training.algorithms.credit"),
)
"""Where the names above are, the modules that load fastest first."""


def __getattr__(name: str) -> object:
    """Load a name when it is first asked for, so that `import practicum` is instant."""
    if name in __all__:
        from importlib import import_module

        for module in _MODULES:
            found = vars(import_module(f"practicum.{module}")).get(name)
            if found is not None:
                return found
    from practicum.core.other_words import find_name

    found = None if name.startswith("_") else find_name(name)
    hint = f"; here it is {found.ours} {found.note}".rstrip() if found else ""
    raise AttributeError(f"module 'practicum' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return __all__
