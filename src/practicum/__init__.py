"""Practicum trains the model that does the work, by doing the work."""

TYPE_CHECKING = False  # importing it from `typing` would load more than all of this
if TYPE_CHECKING:
    from practicum.pipeline import AgenticTrainer, TrainingPipeline
    from practicum.recording import Recorder, record

__version__ = "0.1.0"

__all__ = ["AgenticTrainer", "Recorder", "TrainingPipeline", "__version__", "record"]


def __getattr__(name: str) -> object:
    """What recording and training need is loaded when it is first asked for."""
    if name in ("Recorder", "record"):
        from practicum import recording

        return getattr(recording, name)
    if name in ("AgenticTrainer", "TrainingPipeline"):
        from practicum import pipeline

        return getattr(pipeline, name)
    raise AttributeError(f"module 'practicum' has no attribute {name!r}")
