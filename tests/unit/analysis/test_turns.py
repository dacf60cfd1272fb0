from dataclasses import replace

import pytest
from tests.unit.analysis.builders import LOST, SOLVED, make_episode

from practicum.analysis.run_view import ending, episode_turns, opening
from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.trace import Message, Node, SampledSpan, StopReason, ToolCall, Trace


def test_each_turn_has_its_action_its_answer_and_its_reward() -> None:
    turns = episode_turns(make_episode(SOLVED))
    assert turns[0] == ("identify_operation", "plus: 3x + 7 = 16", 1.5)
    assert [turn.action for turn in turns] == [action for action, _, _ in SOLVED]


def test_the_last_turn_has_no_answer_because_the_policy_saw_none() -> None:
    assert episode_turns(make_episode(SOLVED))[-1] == ("state_answer", None, 3.0)


def test_a_reward_for_the_whole_episode_is_not_shared_out_over_its_turns() -> None:
    episode = make_episode(SOLVED)
    whole = replace(episode, outcome=None, score=Score(components={"solved": 1.0}))
    assert [turn.reward for turn in episode_turns(whole)] == [None] * 4


def test_rewards_that_do_not_match_the_turns_are_not_shown_beside_them() -> None:
    odd = replace(make_episode(SOLVED), score=Score(components={"x": 1.0}, turn_values=(1.0,)))
    assert [turn.reward for turn in episode_turns(odd)] == [None] * 4


def test_a_tool_call_reads_as_a_call() -> None:
    call = ToolCall(name="run", arguments={"command": "ls"})
    span = SampledSpan(logprobs=(0.0,), loss_mask=(True,))
    nodes = (
        Node(parent=None, messages=(Message(role="user", content="look"),), token_ids=(1,)),
        Node(
            parent=0,
            messages=(Message(role="assistant", content="", tool_calls=(call,)),),
            token_ids=(2,),
            sampled=span,
        ),
        Node(parent=1, messages=(Message(role="tool", content="a.txt"),), token_ids=(3,)),
    )
    trace = Trace(id="t", task_id="t", env="shell", nodes=nodes)
    episode = Episode(trace=trace, outcome=None, score=Score.unscored("none"))
    assert episode_turns(episode) == [('run({"command": "ls"})', "a.txt", None)]


def test_the_opening_is_the_question_not_the_rules() -> None:
    assert opening(make_episode(SOLVED)) == "3x + 7 = 16"


def test_an_episode_that_broke_before_its_first_turn_has_no_turns() -> None:
    broken = make_episode((), stop=StopReason.ENVIRONMENT_FAILED, failure="no room")
    assert episode_turns(broken) == []
    assert opening(broken) == ""


@pytest.mark.parametrize(
    ("success", "stop", "words"),
    [
        (True, StopReason.FINISHED, "solved"),
        (False, StopReason.FINISHED, "not solved"),
        (None, StopReason.FINISHED, "ended"),
        (False, StopReason.MAX_TURNS, "cut off at the turn limit"),
        (True, StopReason.MAX_TURNS, "solved"),
        (True, StopReason.AGENT_FAILED, "masked: the agent failed"),
    ],
)
def test_the_ending_says_how_it_went(success: bool | None, stop: StopReason, words: str) -> None:
    assert ending(make_episode(LOST, success=success, stop=stop)) == words
