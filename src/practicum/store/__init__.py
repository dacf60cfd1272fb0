"""What a run keeps on disk: config, facts, metrics, episodes, checkpoints.

Whatever is written here is there whole or not at all, whenever the process dies.
"""

from practicum.store.checkpoints import CheckpointStore, Damaged, Found, verify_checkpoint
from practicum.store.events import DamagedLine, EventLog, EventRow, Rows, read_metrics, read_rows
from practicum.store.export import ExportKind, export_kind, export_traces
from practicum.store.failpoints import FAILPOINTS
from practicum.store.imports import ImportProgress, Stored
from practicum.store.memory import InMemoryTraceStore
from practicum.store.resolve import Resolved, resolve_checkpoint
from practicum.store.run_dir import RunDir
from practicum.store.run_facts import Attempt, RunFacts
from practicum.store.runs import find_run, latest_run, list_runs
from practicum.store.search import FoundEpisode
from practicum.store.summaries import EpisodeSummary
from practicum.store.traces import SqliteTraceStore
from practicum.store.where import FIELDS, parse_where

__all__ = [
    "FAILPOINTS",
    "FIELDS",
    "Attempt",
    "CheckpointStore",
    "Damaged",
    "DamagedLine",
    "EpisodeSummary",
    "EventLog",
    "EventRow",
    "ExportKind",
    "Found",
    "FoundEpisode",
    "ImportProgress",
    "InMemoryTraceStore",
    "Resolved",
    "Rows",
    "RunDir",
    "RunFacts",
    "SqliteTraceStore",
    "Stored",
    "export_kind",
    "export_traces",
    "find_run",
    "latest_run",
    "list_runs",
    "parse_where",
    "read_metrics",
    "read_rows",
    "resolve_checkpoint",
    "verify_checkpoint",
]
