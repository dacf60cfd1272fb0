"""Other systems' manners: ART's scripts, whole pipelines in one call, and the names of theirs."""

TYPE_CHECKING = False  # importing it from `typing` would load more than all of this
if TYPE_CHECKING:
    from practicum.compat.hardware_names import (
        HardwareConfig,
        HardwareProfile,
        detect_hardware,
        get_ryzen_optimized_config,
    )
    from practicum.compat.local_model import (
        ExecutedTask,
        TrainableModel,
        compute_reward,
        sample_professional_tasks,
    )
    from practicum.compat.pipeline import AgenticTrainer, TrainingPipeline
    from practicum.compat.trace_pipeline import (
        BaseReward,
        CheckpointLoader,
        CodeExecutionReward,
        DatasetPipeline,
        EfficiencyReward,
        ExecutionTrace,
        FormatComplianceReward,
        GRPODatasetBuilder,
        GRPOExample,
        KTODatasetBuilder,
        KTOExample,
        LearnedReward,
        ReasoningStep,
        RewardEngine,
        SyntaxValidationReward,
        TaskCompletionReward,
        ToolCallTrace,
        ToolSuccessReward,
        TraceCollector,
        hook_into_agent,
    )
    from practicum.compat.training_names import (
        ExportPipeline,
        GGUFExporter,
        OllamaDeployer,
        OllamaHostingProfile,
        RLTrainer,
        TrainingConfig,
    )

__all__ = [
    "AgenticTrainer",
    "BaseReward",
    "CheckpointLoader",
    "CodeExecutionReward",
    "DatasetPipeline",
    "EfficiencyReward",
    "ExecutedTask",
    "ExecutionTrace",
    "ExportPipeline",
    "FormatComplianceReward",
    "GGUFExporter",
    "GRPODatasetBuilder",
    "GRPOExample",
    "HardwareConfig",
    "HardwareProfile",
    "KTODatasetBuilder",
    "KTOExample",
    "LearnedReward",
    "OllamaDeployer",
    "OllamaHostingProfile",
    "RLTrainer",
    "ReasoningStep",
    "RewardEngine",
    "SyntaxValidationReward",
    "TaskCompletionReward",
    "ToolCallTrace",
    "ToolSuccessReward",
    "TraceCollector",
    "TrainableModel",
    "TrainingConfig",
    "TrainingPipeline",
    "compute_reward",
    "detect_hardware",
    "get_ryzen_optimized_config",
    "hook_into_agent",
    "sample_professional_tasks",
]

_MODULES = ("hardware_names", "trace_pipeline", "pipeline", "training_names", "local_model")


def __getattr__(name: str) -> object:
    """Load a name when it is first asked for: ART's scripts need none of these."""
    if name in __all__:
        from importlib import import_module

        for module in _MODULES:
            found = vars(import_module(f"practicum.compat.{module}")).get(name)
            if found is not None:
                return found
    from practicum.core.other_words import find_name

    found = None if name.startswith("_") else find_name(name)
    hint = f"; here it is {found.ours} {found.note}".rstrip() if found else ""
    raise AttributeError(f"module 'practicum.compat' has no attribute {name!r}{hint}")
