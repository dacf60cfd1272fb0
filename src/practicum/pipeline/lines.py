"""How training goes on, as lines on standard error."""

import sys
from dataclasses import dataclass, field

from practicum.core.report import EvalReport
from practicum.core.sample import Episode
from practicum.core.task import JSON

__all__ = ["TrainingLines"]


@dataclass(slots=True, kw_only=True)
class TrainingLines:
    """Says a line for each step and evaluation, and remembers what was said in warning."""

    steps: int
    is_quiet: bool = False
    warnings: list[str] = field(default_factory=list)

    def step_started(self, step: int, episodes: int) -> None:
        """A step begins."""

    def episode_done(self, episode: Episode) -> None:
        """One more episode."""

    def step_done(self, step: int, metrics: dict[str, JSON]) -> None:
        """A step is complete."""
        wanted = ("loss", "reward", "success", "heldout_loss", "heldout_in_order")
        numbers = {name: metrics.get(name) for name in wanted}
        said = [f"{k} {v:.3f}" for k, v in numbers.items() if isinstance(v, int | float)]
        self._say(f"step {step} of {self.steps}: {metrics.get('stage', '')} {', '.join(said)}")

    def evaluation_started(self, step: int, episodes: int) -> None:
        """A held-out evaluation begins."""

    def evaluated(self, step: int, report: EvalReport) -> None:
        """A held-out evaluation is complete."""
        success = report.success
        self._say(
            f"held-out after {step} steps: success {success.value:.2f} "
            f"[{success.low:.2f}, {success.high:.2f}], n = {success.n}"
        )

    def warned(self, sentence: str) -> None:
        """Something the user should know."""
        self.warnings.append(sentence)
        self._say(f"warning: {sentence}")

    def _say(self, line: str) -> None:
        if not self.is_quiet:
            print(line, file=sys.stderr, flush=True)
