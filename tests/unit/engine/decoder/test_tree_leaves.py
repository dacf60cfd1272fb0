import torch

from practicum.engine.decoder.tree_attention import Leaves, chains, in_batches


def test_chains_are_the_branches_that_branch_no_more() -> None:
    ends = [9, 9, 5, 5, 5, 9, 7, 9, 9, 11, 11]
    assert list(chains(ends)) == [(2, 5), (6, 7), (7, 9), (9, 11)]


def test_a_lone_row_is_one_chain() -> None:
    assert list(chains([4, 4, 4, 4])) == [(0, 4)]
    assert list(chains([])) == []


def test_batches_are_of_about_one_length_and_of_at_least_four() -> None:
    short = [(at, at + 10) for at in range(0, 50, 10)]
    middle = [(at, at + 17) for at in range(100, 100 + 3 * 17, 17)]
    long = [(at, at + 65) for at in range(1000, 1000 + 5 * 65, 65)]
    assert in_batches([*short, *middle, *long]) == [short]


def test_shorter_branches_are_padded_with_their_last_token() -> None:
    leaves = Leaves.of([(3, 6), (6, 7), (9, 11)], torch.device("cpu"))
    assert leaves.index.tolist() == [3, 4, 5, 6, 6, 6, 9, 10, 10]
    assert leaves.tokens.tolist() == [3, 4, 5, 6, 9, 10]
    assert leaves.padding.tolist() == [4, 5, 8]
