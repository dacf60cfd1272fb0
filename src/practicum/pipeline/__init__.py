"""Training from Python, with the whole way in one call or in four."""

from practicum.pipeline.agentic_trainer import AgenticTrainer, TrainingData
from practicum.pipeline.training_pipeline import TrainingPipeline

__all__ = ["AgenticTrainer", "TrainingData", "TrainingPipeline"]
