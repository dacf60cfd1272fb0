"""Sweeps: a study for each of several settings, compared with the first of them."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from practicum.core.checkpoint import Interval
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import UserError
from practicum.evaluation.study_report import StudyReport, compare_studies
from practicum.store.study_dir import StudyDir
from practicum.store.sweep_dir import Setting, SweepDir
from practicum.workflows.studies import Study, create_study

MOST_SETTINGS = 64
"""More are rather a search, which needs another way to choose."""
NAME_CHARACTERS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingResult:
    """What a setting came to."""

    words: tuple[str, ...]
    report: StudyReport | None
    """None where there is no evaluation of it."""
    difference: Interval | None
    """In success over the first setting, on the same tasks."""
    told: str = ""
    """Why one of them is missing."""

    @property
    def label(self) -> str:
        """What sets it apart."""
        return " ".join(self.words)


def split_words(words: Iterable[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Plain overrides, and the keys that are swept with their values.

    >>> split_words(["steps=3", "algorithm.lr=1e-4,3e-4", "lora.targets=[q_proj,k_proj]"])
    (['steps=3', 'lora.targets=[q_proj,k_proj]'], {'algorithm.lr': ['1e-4', '3e-4']})
    """
    plain: list[str] = []
    swept: dict[str, list[str]] = {}
    for word in words:
        key, equals, text = word.partition("=")
        values = _values(text)
        if not equals or len(values) < 2:
            plain.append(word)
            continue
        if twice := [value for n, value in enumerate(values) if value in values[:n]]:
            raise UserError(f"{word!r} names {twice[0]} twice; give each value once")
        if key in swept:
            raise UserError(f"{key} is swept twice; give all its values in one word: {key}=a,b,c")
        swept[key] = values
    return plain, swept


def _values(text: str) -> list[str]:
    """The values between commas; those within brackets or braces stay together."""
    found, depth = [""], 0
    for sign in text:
        depth += (sign in "[{(") - (sign in "]})")
        if sign == "," and depth == 0:
            found.append("")
        else:
            found[-1] += sign
    return [value.strip() for value in found if value.strip()]


def settings_of(words: Sequence[str], read: Callable[[Sequence[str]], RunConfig]) -> list[Setting]:
    """Every combination of the swept values, checked; the first is what others are held against.

    Args:
        words: Overrides, some of them with several values.
        read: Makes the config that some overrides come to.
    """
    plain, swept = split_words(words)
    if not swept:
        raise UserError(
            "no key has several values to sweep; write them with commas, such as "
            "algorithm.lr=1e-4,3e-4,1e-3"
        )
    combinations = [
        tuple(f"{key}={value}" for key, value in zip(swept, chosen, strict=True))
        for chosen in product(*swept.values())
    ]
    if len(combinations) > MOST_SETTINGS:
        raise UserError(
            f"that is {len(combinations)} settings, and a sweep takes {MOST_SETTINGS} at most; "
            "sweep fewer keys at once"
        )
    return [
        Setting(
            name=_name(number, own),
            words=own,
            config=read([*plain, *own]).model_dump(mode="json"),
        )
        for number, own in enumerate(combinations, start=1)
    ]


def _name(number: int, words: Sequence[str]) -> str:
    """A folder's name: `01-lr-1e-4`."""
    pairs = [word.partition("=") for word in words]
    told = "-".join(f"{key.rpartition('.')[2]}-{value}" for key, _, value in pairs)
    text = re.sub(r"[^A-Za-z0-9._-]+", "_", told)
    return f"{number:02d}-{text}"[:NAME_CHARACTERS]


def prepare_setting(sweep: SweepDir, setting: Setting, parallel: int, threads: int) -> StudyDir:
    """The study of a setting, made where it is not there yet."""
    found = sweep.study(setting)
    if found is not None:
        return found
    config = sweep.config(setting)
    hardware = config.hardware.model_copy(update={"threads": threads})
    config = config.model_copy(update={"hardware": hardware})
    return create_study(config, sweep.facts().seeds, name=setting.name, parallel=parallel)


def sweep_results(sweep: SweepDir) -> list[SettingResult]:
    """Each setting with its difference to the first, as far as they were evaluated."""
    settings = sweep.facts().settings
    return [_result(sweep, setting, settings[0]) for setting in settings]


def _result(sweep: SweepDir, setting: Setting, first: Setting) -> SettingResult:
    folder, baseline = sweep.study(setting), sweep.study(first)
    report: StudyReport | None = None
    difference, told = None, ""
    if folder is None:
        told = "not begun"
    else:
        try:
            study = Study(folder)
            report = study.report()
            if setting is not first and baseline is not None:
                compared = compare_studies(Study(baseline).evidence, study.evidence)
                difference = compared.success_difference
        except UserError as error:
            told = str(error)
    return SettingResult(words=setting.words, report=report, difference=difference, told=told)


def many_looks(results: Sequence[SettingResult]) -> list[str]:
    """What one must not read into a sweep, a sentence each."""
    looks = sum(result.difference is not None for result in results)
    scored = [result for result in results if result.report is not None]
    told = []
    if looks > 1:
        told.append(
            f"{looks} comparisons, each with a 95 % interval: where no setting differs from the "
            f"first, one or more would still seem to in up to {1 - 0.95**looks:.0%} of sweeps."
        )
    if len({_success(result) for result in scored}) > 1:
        best = max(scored, key=_success)
        told.append(
            f"Most success: {best.label}. The best of {len(scored)} looks better than it is; see "
            "whether it holds with other seeds and other tasks: "
            f"practicum train ... {best.label} eval.seed=1 --seeds 101,102,103"
        )
    seeds = {len(result.report.seeds) for result in scored if result.report is not None}
    if seeds == {1}:
        told.append("One seed each: intervals are over tasks only; --seeds 3 says what luck does.")
    return told


def _success(result: SettingResult) -> float:
    assert result.report is not None
    return result.report.success.value
