import pytest

from practicum.rewards.judge.judge_reward import read_answer


@pytest.mark.parametrize(
    "text",
    [
        '{"scores": [{"id": "1", "score": 0.2}, {"id": "2", "score": 1}]}',
        '{"scores": [{"id": 2, "why": "x", "score": 1.0}, {"id": 1, "score": 0.2}]}',
        'Here you are:\n```json\n{"scores": {"1": 0.2, "2": 1}}\n```\nBest wishes {a}',
        '[{"id": "1", "score": 0.2}, {"id": "2", "score": 1}]',
        '{"1": {"score": 0.2}, "2": {"score": 1}}',
        'At first {"scores": [{"id": "1", "score": 0.9}]} but then {"1": 0.2, "2": 1.0}',
        '{broken {"1": 0.2, "2": 1.0}',
    ],
)
def test_scores_are_matched_by_id_whatever_stands_around_them(text: str) -> None:
    answer = read_answer(text, 2)
    assert answer.scores == {"1": 0.2, "2": 1.0}
    assert not answer.faults


@pytest.mark.parametrize(
    ("text", "scores", "fault"),
    [
        ("I cannot judge this.", {}, "no JSON object with scores"),
        ('{"verdict": "both fine"}', {}, "no JSON object with scores"),
        ('{"scores": [{"id": "1", "score": 0.5}]}', {"1": 0.5}, 'attempt "2" has no score'),
        ('{"1": 0.5, "2": 1.5}', {"1": 0.5}, 'the score of "2" is 1.5, which is not between'),
        ('{"1": 0.5, "2": -0.1}', {"1": 0.5}, 'the score of "2" is -0.1'),
        ('{"1": 0.5, "2": true}', {"1": 0.5}, 'the score of "2" is no number'),
        ('{"1": 0.5, "2": "high"}', {"1": 0.5}, 'the score of "2" is no number'),
        ('{"1": 0.5, "2": NaN}', {"1": 0.5}, 'the score of "2" is nan'),
        ('{"1": 0.5, "2": 0.5, "3": 1}', {"1": 0.5, "2": 0.5}, 'there is no attempt "3"'),
        (
            '[{"id": 1, "score": 0.5}, {"id": 2, "score": 0.1}, {"id": 2, "score": 0.9}]',
            {"1": 0.5},
            'attempt "2" has two scores',
        ),
    ],
)
def test_what_is_not_surely_meant_is_no_score(
    text: str, scores: dict[str, float], fault: str
) -> None:
    answer = read_answer(text, 2)
    assert answer.scores == scores
    assert any(fault in said for said in answer.faults)


def test_an_endless_answer_is_read_in_good_time() -> None:
    assert not read_answer("[" * 300_000, 2).scores
