"""Where turns are sampled, as a config says it."""

import pytest

from practicum.config_files import read_config
from practicum.core.errors import ConfigError


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ([], "in the process that learns"),
        (["sampler=engine"], "in the process that learns"),
        (["sampler=practicum"], "by practicum in a process that the run starts here"),
        (
            ["sampler.kind=vllm", "sampler.replicas=2"],
            "by vllm in 2 processes that the run starts here",
        ),
        (
            ["sampler.kind=vllm", "sampler.urls=[http://10.0.0.7:8000/]"],
            "by vllm at http://10.0.0.7:8000",
        ),
    ],
)
def test_a_word_or_its_options_say_where_a_run_samples(words: list[str], where: str) -> None:
    assert read_config("math", words).sampler.where == where


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["sampler=vlm"], "did you mean 'vllm'"),
        (["sampler.kind=practicum", "sampler.replica=2"], "did you mean 'sampler.replicas'"),
        (["sampler.replicas=2"], "sampler.replicas is for replicas, and sampler.kind is engine"),
        (["sampler.urls=[http://a:1]"], "sampler.urls is for replicas"),
        (
            ["sampler.kind=vllm", "sampler.replicas=2", "sampler.urls=[http://a:1]"],
            "replicas for the number to start here, or urls of those that run, and not both",
        ),
        (["sampler.kind=vllm", "sampler.urls=[a:1]"], "'a:1' is no address"),
        (["sampler.kind=vllm", "sampler.urls=http://u:p@a"], "put it into a file"),
        (["sampler.kind=vllm", "sampler.urls=[http://a, http://a/]"], "names a replica twice"),
        (["sampler.kind=practicum", "sampler.python=python3"], "sampler.python is for kind: vllm"),
        (["sampler=vllm", "rollouts.top_p=0.9"], "set rollouts.top_p=1 and rollouts.top_k=0"),
        (
            ["sampler=vllm", "rollouts.temperature=2.5"],
            "up to 2.0, and rollouts.temperature is 2.5",
        ),
        (["sampler=vllm", "rollouts.top_k=5"], "set rollouts.top_p=1 and rollouts.top_k=0"),
        (["sampler=vllm", "lora.r=600"], "vLLM takes adapters of rank 512 at most"),
        (["rollouts.engine=vllm"], "here rollouts.engine is sampler.kind"),
        (["use_vllm=true"], "here use_vllm is sampler"),
        (["vllm_mode=server"], "here vllm_mode is sampler.urls"),
        (["tensor_parallel_size=2"], r"sampler.args=\[--tensor-parallel-size=2\]"),
    ],
)
def test_a_mistake_is_answered_with_what_to_write(words: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        read_config("math", words)
