"""Agents that run in this process, recorded as they run: what they say, call, think and break at.

`practicum.record` wraps a function; a `Recorder` gives the finer tools.
"""

from practicum.recording.recorder import Recorder, record
from practicum.recording.recording import Call, Recording, current_recording

__all__ = ["Call", "Recorder", "Recording", "current_recording", "record"]
