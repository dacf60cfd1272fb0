"""Other systems' manners: ART's scripts, whole pipelines in one call, and the names of theirs."""

TYPE_CHECKING = False  # importing it from `typing` would load more than all of this
if TYPE_CHECKING:
    from practicum.compat.hardware_names import (
        HardwareConfig,
        HardwareProfile,
        detect_hardware,
        get_ryzen_optimized_config,
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
        KTODatasetBuilder,
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
    "ExecutionTrace",
    "ExportPipeline",
    "FormatComplianceReward",
    "GGUFExporter",
    "GRPODatasetBuilder",
    "HardwareConfig",
    "HardwareProfile",
    "KTODatasetBuilder",
    "LearnedReward",
    "OllamaDeployer",
    "RLTrainer",
    "ReasoningStep",
    "RewardEngine",
    "SyntaxValidationReward",
    "TaskCompletionReward",
    "ToolCallTrace",
    "ToolSuccessReward",
    "TraceCollector",
    "TrainingConfig",
    "TrainingPipeline",
    "detect_hardware",
    "get_ryzen_optimized_config",
    "hook_into_agent",
]

_MODULES = ("hardware_names", "trace_pipeline", "pipeline", "training_names")


def __getattr__(name: str) -> object:
    """Load a name when it is first asked for: ART's scripts need none of these."""
    if name in __all__:
        from importlib import import_module

        for module in _MODULES:
            found = vars(import_module(f"practicum.compat.{module}")).get(name)
            if found is not None:
                return found
    raise AttributeError(f"module 'practicum.compat' has no attribute {name!r}")
