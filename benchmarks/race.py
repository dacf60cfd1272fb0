"""Sides that take turns: every side in each round, medians over the rounds, the first not counted.

A peer that cannot be built or run here, or that does not fit, is left out with the reason;
Practicum's own errors are raised.

All of them compute in the one thread that Practicum computes in. A second thread would have a team
of OpenMP's workers to itself, and with two teams on few cores small operations of both sides take
several times as long. Freed memory stays with the process, for all of them, as long as the machine
has as much again.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import torch
from cases import Case
from torch.optim.optimizer import register_optimizer_step_pre_hook

from practicum.engine.compute_thread import computed
from practicum.engine.models.lora import trainable
from practicum.engine.planning.machine import detect_machine, give_back_heap, keep_heap

__all__ = ["OURS", "Race", "Side", "Stages", "free_memory", "peak_bytes", "race", "relative_error"]

OURS = "practicum"

Gradients = dict[str, torch.Tensor]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of those who do the same work."""

    run: Callable[[], dict[str, float]]
    """Does the work once; returns the seconds of its stages, if it has any."""
    model: Any = None
    """Whose gradients are compared, where there are any."""


@dataclass(slots=True)
class Race:
    """What was measured."""

    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    """By side, then by stage; `total` is the whole."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Why, by side."""
    peak_bytes: dict[str, int] = field(default_factory=dict)
    """By side; only where each ran alone on a CUDA device."""
    gradients: dict[str, Gradients] = field(default_factory=dict)
    """Of the first update, by side."""

    def totals(self) -> dict[str, float]:
        """Seconds of the whole, by side."""
        return self.stage("total")

    def stage(self, name: str) -> dict[str, float]:
        """Seconds of one stage, by side."""
        return {side: stages[name] for side, stages in self.seconds.items()}

    def ratios(self, stage: str = "total") -> dict[str, float]:
        """How many times as long as Practicum each side takes."""
        found = self.stage(stage)
        return {side: found[side] / found[OURS] for side in found} if OURS in found else {}

    def errors(self, reference: str) -> dict[str, float]:
        """Distance of each side's gradients to the reference's, where both were seen."""
        expected = self.gradients.get(reference)
        return {
            side: relative_error(found, expected)
            for side, found in self.gradients.items()
            if expected and side != reference and found.keys() == expected.keys()
        }


class Stages:
    """A clock for the parts of a side's work; it waits for the device at both ends of each."""

    def __init__(self, device: str) -> None:
        self._device = device
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add what happens inside to a stage."""
        wait(self._device)
        began = time.perf_counter()
        yield
        wait(self._device)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    def take(self) -> dict[str, float]:
        """The seconds so far; the clock starts again."""
        taken, self.seconds = self.seconds, {}
        return taken


def wait(device: str) -> None:
    """Until the device has done everything it was given."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def race(builders: Mapping[str, Callable[[], Side]], case: Case) -> Race:
    """Build the sides that the case asks for and measure them.

    They alternate in one process; with `case.separate` each is built, measured and freed before
    the next one is built.
    """
    if not case.uses_cuda:
        keep_heap()  # as a run does where memory suffices
    found = Race()
    asked = {name: build for name, build in builders.items() if name not in case.without}
    if not case.separate:
        _run_rounds(asked, case, found)
        return found
    for name, build in asked.items():
        free_memory(case.device)
        _run_rounds({name: build}, case, found)
        if case.uses_cuda and name in found.seconds:
            found.peak_bytes[name] = peak_bytes()
    return found


def _run_rounds(builders: Mapping[str, Callable[[], Side]], case: Case, found: Race) -> None:
    built = {name: _attempt(name, build, found) for name, build in builders.items()}
    sides = {name: side for name, side in built.items() if side is not None}
    times: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    watches = {name: GradientWatch(side.model) for name, side in sides.items() if side.model}
    for round_number in range(case.repeats + 1):
        for name, side in list(sides.items()):
            _relieve(case)
            stages = _attempt(name, partial(_time, side, case), found)
            if stages is None:
                del sides[name], times[name]
            elif round_number:
                times[name].append(stages)
        if round_number == 0:
            found.gradients |= {n: w.close() for n, w in watches.items() if n in sides}
    for name, rounds in times.items():
        found.seconds[name] = {
            stage: statistics.median(stages[stage] for stages in rounds) for stage in rounds[0]
        }


def _relieve(case: Case) -> None:
    """What one side has freed may be more than a machine can spare beside the next one."""
    if case.uses_cuda:
        return
    machine = detect_machine()
    if machine.available_bytes < machine.memory_bytes / 2:
        gc.collect()
        give_back_heap()


def _time(side: Side, case: Case) -> dict[str, float]:
    wait(case.device)
    began = time.perf_counter()
    stages = side.run()
    wait(case.device)
    return {**stages, "total": time.perf_counter() - began}


def _attempt(name: str, act: Callable[[], Result], found: Race) -> Result | None:
    try:
        return act() if name == OURS else computed(act)()
    except torch.OutOfMemoryError:
        reason = "does not fit"
    except Exception as error:  # a peer may fail for any reason of its own, and is then left out
        if name == OURS:
            raise
        text = (str(error).strip() or "no reason given").splitlines()[0]
        reason = f"{type(error).__name__}: {text}"
    found.left_out[name] = reason
    gc.collect()
    return None


class GradientWatch:
    """Keeps the gradients that a model's parameters have when its optimizer steps."""

    def __init__(self, model: Any) -> None:
        self._parameters = dict(trainable(model))
        self._known = {id(parameter) for parameter in self._parameters.values()}
        self._kept: Gradients = {}
        self._handle = register_optimizer_step_pre_hook(self._keep)

    def _keep(self, optimizer: Any, *_: Any) -> None:
        if id(optimizer.param_groups[0]["params"][0]) not in self._known:
            return
        for name, parameter in self._parameters.items():
            if parameter.grad is not None:
                self._kept[name] = parameter.grad.detach().cpu().clone()

    def close(self) -> Gradients:
        """Stop watching, so that it costs no more time; what was kept."""
        self._handle.remove()
        return self._kept


@computed
def relative_error(found: Gradients, expected: Gradients) -> float:
    """Distance of all gradients together, relative to their size."""
    pairs = [(found[name].double(), expected[name].double()) for name in expected]
    difference = sum(float((a - b).pow(2).sum()) for a, b in pairs)
    return float((difference / sum(float(b.pow(2).sum()) for _, b in pairs)) ** 0.5)


def free_memory(device: str) -> None:
    """Give back what nobody holds any more, and count the peak anew."""
    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_bytes() -> int:
    """The most that tensors have taken on the device since memory was last freed."""
    return int(torch.cuda.max_memory_allocated())
