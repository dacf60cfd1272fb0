"""The pages of rollouts: searching them, one group, one trace, and one task at several versions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from starlette.responses import Response

from practicum.analysis.run_view import ending, episode_turns, opening
from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.task import Task
from practicum.core.trace import StopReason
from practicum.monitor.page_parts import Asked, Monitor
from practicum.monitor.run_folders import NotThere
from practicum.monitor.token_view import MOST_TOKENS, Tokenizers, token_pieces
from practicum.stats.advantages import episode_advantages
from practicum.store.run_dir import RunDir
from practicum.store.text_search import search_text
from practicum.store.trace_store import (
    ORDERS,
    EpisodeSummary,
    FoundEpisode,
    Order,
    SqliteTraceStore,
)

PAGE = 50
MOST_SKIPPED = 1_000_000
MOST_DRAWN = 1000
"""Episodes of one task in one step that are looked through for a group."""
MOST_IN_GROUP = 64
MOST_VERSIONS = 12
FOLDED = 1500
"""Characters of an output from which it is folded."""
LAST_ROW = 2**62
TOKENIZERS = Tokenizers()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEntry:
    """One episode of a group."""

    row: int
    summary: EpisodeSummary
    episode: Episode
    reward: float | None
    advantage: float | None
    """None where it is not trained on."""

    @property
    def ending(self) -> str:
        """How it ended."""
        return ending(self.episode)


def opened(monitor: Monitor, name: str) -> tuple[RunDir, SqliteTraceStore]:
    """A run and its store."""
    run = monitor.runs.run(name)
    return run, monitor.stores.reading(run.traces_path)


def rollouts_page(monitor: Monitor, asked: Asked) -> Response:
    """Episodes that match, a page at a time."""
    name = asked.text("run")
    run = monitor.runs.run(name)
    where, order = condition_of(asked), asked.text("order", "newest")
    skip = asked.number("skip", 0, MOST_SKIPPED)
    if order not in ORDERS:
        raise UserError(f"order is {order[:40]!r}; give one of {', '.join(ORDERS)}")
    text, problem = asked.text("text"), ""
    found: Sequence[FoundEpisode] = ()
    excerpts: dict[int, str] = {}
    looked_at, before, total, stops = 0, None, None, {}
    if run.traces_path.is_file():
        store = monitor.stores.reading(run.traces_path)
        try:
            if text:
                at = asked.number("before", LAST_ROW, LAST_ROW)
                page = search_text(store, text, where=where, before=at, limit=PAGE)
                excerpts = dict(page.hits)
                looked_at, before = page.looked_at, page.before
                found = [one for row in excerpts if (one := found_at(store, row)) is not None]
            else:
                found = store.ranked(where, _order(order), PAGE, skip)
                total = store.count_where(where)
                stops = store.counts_by("stop", where)
        except UserError as error:
            problem = str(error).replace("--where ", "the condition ")
    return monitor.page(
        "rollouts.html",
        status=400 if problem else 200,
        name=name,
        asked=asked,
        found=found,
        excerpts=excerpts,
        looked_at=looked_at,
        before=before,
        total=total,
        stops=stops,
        skip=skip,
        page_size=PAGE,
        order=order,
        orders=[*ORDERS],
        endings=[*StopReason],
        problem=problem,
        has_store=run.traces_path.is_file(),
    )


def _order(given: str) -> Order:
    return next(order for order in ORDERS if order == given)


CHOICES = {
    "success": "success = {}",
    "stop": 'stop = "{}"',
    "purpose": 'purpose = "{}"',
    "level": "level = {}",
    "step": "step = {}",
    "least": "score >= {}",
    "most": "score <= {}",
}


def condition_of(asked: Asked) -> str:
    """The condition of the filter's fields and of what was typed, which may be wrong."""
    parts = [f"({typed})"] if (typed := asked.text("where").strip()) else []
    for name, form in CHOICES.items():
        if given := asked.text(name).strip():
            quoted = given.replace("\\", "\\\\").replace('"', '\\"') if '"' in form else given
            parts.append(form.format(quoted))
    return " and ".join(parts)


def found_at(store: SqliteTraceStore, row: int) -> FoundEpisode | None:
    """The columns of a row."""
    page = store.find(after=row - 1, limit=1)
    return page[0] if page and page[0].row == row else None


def trace_page(monitor: Monitor, asked: Asked) -> Response:
    """One episode: as a conversation, as tokens, or its evidence."""
    name = asked.text("run")
    run, store = opened(monitor, name)
    row = asked.number("row", 0, LAST_ROW)
    found, episode = found_at(store, row), store.episode_at(row)
    if found is None or episode is None:
        raise NotThere(f"there is no episode {row} in {run.traces_path}, or it cannot be read")
    view = asked.text("view", "conversation")
    trace = episode.trace
    leaves = trace.leaves()
    leaf = asked.number("leaf", leaves[-1] if leaves else 0, max(0, len(trace.nodes) - 1))
    if trace.nodes and leaf not in leaves:
        raise NotThere(f"message {leaf} ends no branch of this trace; choose one of the list")
    entry = next((one for one in group_of(store, run, found.summary) if one.row == row), None)
    pieces = []
    if view == "tokens" and trace.nodes:
        pieces = token_pieces(episode, leaf, TOKENIZERS.of(run))
    return monitor.page(
        "trace.html",
        name=name,
        row=row,
        found=found,
        episode=episode,
        view=view,
        task=store.task(trace.env, trace.task_id),
        path=trace.path(leaf) if trace.nodes else (),
        leaf=leaf,
        leaves=leaves,
        rewards=turn_rewards(episode, leaf),
        labels=[*store.labels(trace.id)],
        advantage=entry.advantage if entry else None,
        ending=ending(episode),
        pieces=pieces,
        most_tokens=MOST_TOKENS,
        path_tokens=len(trace.token_ids(leaf)) if trace.nodes else 0,
        folded=FOLDED,
        has_tokenizer=bool(pieces) and TOKENIZERS.of(run) is not None,
    )


def turn_rewards(episode: Episode, leaf: int) -> dict[int, float]:
    """What each turn was worth, by node; nothing where the reward is for the whole alone."""
    trace = episode.trace
    if not trace.nodes or leaf != trace.leaves()[-1]:
        return {}
    turns = [index for index in trace.path(leaf) if trace.nodes[index].sampled is not None]
    paid = [turn.reward for turn in episode_turns(episode)]
    return {i: r for i, r in zip(turns, paid, strict=True) if r is not None}


def group_of(store: SqliteTraceStore, run: RunDir, one: EpisodeSummary) -> list[GroupEntry]:
    """The episodes that were made together for one task, the best first.

    A step may draw a task twice: a run's own rollouts are named `.../TASK/NUMBER` by their group.
    """
    where = (
        f"step = {one.step} and purpose = {_quoted(one.purpose)} and env = {_quoted(one.env)} "
        f"and task = {_quoted(one.task_id)}"
    )
    together = one.id.rpartition("/")[0]
    drawn = store.ranked(where, "best", MOST_DRAWN)
    found = [each for each in drawn if each.summary.id.rpartition("/")[0] == together]
    read = [(each, store.episode_at(each.row)) for each in found[:MOST_IN_GROUP]]
    kept = [(each, episode) for each, episode in read if episode is not None]
    usable = [episode.score.value for _, episode in kept if episode.is_usable]
    values = tuple(value for value in usable if value is not None)
    scale = getattr(run.config().algorithm, "scale", None)
    advantages: Iterator[float] = iter(())
    if scale is not None and one.purpose == "train" and len(values) > 1:
        advantages = iter(episode_advantages(values, scale))
    return [
        GroupEntry(
            row=each.row,
            summary=each.summary,
            episode=episode,
            reward=episode.score.value,
            advantage=next(advantages, None) if episode.is_usable else None,
        )
        for each, episode in kept
    ]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def group_page(monitor: Monitor, asked: Asked) -> Response:
    """All episodes of one task in one step, side by side."""
    name = asked.text("run")
    run, store = opened(monitor, name)
    found = found_at(store, asked.number("row", 0, LAST_ROW))
    if found is None:
        raise NotThere(f"there is no such episode in {run.traces_path}")
    entries = group_of(store, run, found.summary)
    config = run.config().algorithm
    return monitor.page(
        "group.html",
        name=name,
        row=found.row,
        summary=found.summary,
        entries=entries,
        task=store.task(found.summary.env, found.summary.task_id),
        asked_for=opening(entries[0].episode) if entries else "",
        components=component_names([entry.episode for entry in entries]),
        algorithm=config.name,
        scale=getattr(config, "scale", None),
        folded=FOLDED,
    )


def component_names(episodes: Sequence[Episode]) -> list[str]:
    """The components that any of them was paid for."""
    return [*dict.fromkeys(name for one in episodes for name in one.score.components)]


def versions_page(monitor: Monitor, asked: Asked) -> Response:
    """The same task after several steps: what the policy did then and what it does now."""
    name = asked.text("run")
    _, store = opened(monitor, name)
    found = found_at(store, asked.number("row", 0, LAST_ROW))
    if found is None:
        raise NotThere("there is no such episode; the list of rollouts has those there are")
    summary = found.summary
    where = f"env = {_quoted(summary.env)} and task = {_quoted(summary.task_id)}"
    rows = store.ranked(where, "oldest", 4 * MOST_VERSIONS * MOST_VERSIONS)
    firsts: dict[tuple[int, str], FoundEpisode] = {}
    for one in rows:
        firsts.setdefault((one.summary.step, one.summary.purpose), one)
    shown = [*firsts.values()]
    if len(shown) > MOST_VERSIONS:
        last = len(shown) - 1
        places = sorted({round(i * last / (MOST_VERSIONS - 1)) for i in range(MOST_VERSIONS)})
        shown = [shown[place] for place in places]
    episodes = [(one, store.episode_at(one.row)) for one in shown]
    task: Task | None = store.task(summary.env, summary.task_id)
    return monitor.page(
        "versions.html",
        name=name,
        summary=summary,
        task=task,
        several=[(one, episode, ending(episode)) for one, episode in episodes if episode],
        steps=len(firsts),
        folded=FOLDED,
    )
