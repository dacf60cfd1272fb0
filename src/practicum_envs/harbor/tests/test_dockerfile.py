"""Dockerfiles are read as Docker reads them."""

import pytest

from practicum_envs.harbor.dockerfile import UnreadableDockerfile, read_dockerfile


def test_comments_between_continued_lines_are_no_part_of_the_command() -> None:
    [one] = read_dockerfile("RUN apt-get install \\\n  # why\n  git \\\n\n  curl\n")
    assert one.words.split() == ["apt-get", "install", "git", "curl"]


def test_variables_are_filled_in_but_not_in_what_the_shell_runs() -> None:
    found = read_dockerfile("ARG a=1\nENV b=${a}2\nCOPY x /$b/\nRUN echo $b\n")
    assert [one.words for one in found[2:]] == ["x /12/", "echo $b"]


def test_a_here_document_is_a_script_or_a_file() -> None:
    run, copy = read_dockerfile("RUN <<END\necho a\nEND\nCOPY <<'F' /a\n$x\nF\n")
    assert run.script() == "echo a\n"
    assert copy.documents == (("F", "$x\n"),)


def test_a_here_document_of_a_command_stays_with_it() -> None:
    [run] = read_dockerfile("RUN cat <<END > /a\nhello\nEND\n")
    assert run.script() == "cat <<END > /a\nhello\nEND"


def test_flags_are_apart_from_the_words() -> None:
    [one] = read_dockerfile("COPY --chown=1:1 --from=build a b")
    assert (one.flags, one.words) == ((("chown", "1:1"), ("from", "build")), "a b")


def test_a_here_document_without_an_end_is_told() -> None:
    with pytest.raises(UnreadableDockerfile, match="END has no end"):
        read_dockerfile("RUN <<END\necho a\n")
