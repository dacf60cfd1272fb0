"""One model that samples and learns."""

from practicum.policy.learner import LearnerSettings, TorchLearner
from practicum.policy.scripted import ScriptedSampler
from practicum.policy.threads import pin_threads
from practicum.policy.torch_policy import TorchPolicy, load_adapted_sampler, load_for_policy

__all__ = [
    "LearnerSettings",
    "ScriptedSampler",
    "TorchLearner",
    "TorchPolicy",
    "load_adapted_sampler",
    "load_for_policy",
    "pin_threads",
]
