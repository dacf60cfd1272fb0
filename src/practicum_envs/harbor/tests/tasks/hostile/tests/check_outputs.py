from pathlib import Path


def test_the_number_is_right():
    assert Path("/app/answer.txt").read_text().strip() == "102334155"
