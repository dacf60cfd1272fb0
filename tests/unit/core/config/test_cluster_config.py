"""What `cluster` takes, and what it says of the rest."""

import pytest

from practicum.config_files import read_config
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import ConfigError


def config(*words: str) -> RunConfig:
    return read_config("math", ["model=tiny", *words])


def test_one_word_is_the_kind_and_a_stored_config_is_read_again() -> None:
    for words in (["cluster=ray", "sampler=practicum"], []):
        found = config(*words)
        assert found.cluster.is_there == bool(words)
        assert RunConfig.model_validate(found.model_dump(mode="json")) == found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cluster.workers=2"], "cluster.workers is for a cluster, and cluster.kind is none"),
        (["cluster=ray", "cluster.workers=3", "cluster.most_workers=2"], "most_workers at least"),
        (["cluster=ray", "cluster.most_samplers=2"], "sampler.replicas 0"),
        (
            ["cluster=ray", "sampler=practicum", "sampler.replicas=3", "cluster.most_samplers=2"],
            "sampler.replicas 3",
        ),
        (["cluster=ray", "sampler=vllm"], "vLLM is not started as an actor"),
        (
            ["cluster=ray", "sampler=practicum", "sampler.args=[--x]"],
            "sampler.args is for replicas",
        ),
        (["cluster=ray", "cluster.address=local"], "type practicum cluster up"),
        (["cluster=slurm"], "'none' or 'ray'"),
        (["n_gpus_per_node=2"], "hardware.processes"),
        (["num_train_gpus=2"], "hardware.processes"),
        (["num_infer_gpus=2"], "sampler.replicas"),
        (["tensor_parallel_size=2"], r"sampler.args=\[--tensor-parallel-size=2\]"),
        (["trainer.nnodes=2"], "cluster=ray"),
    ],
    ids=lambda given: given[-1] if isinstance(given, list) else "",
)
def test_what_cannot_be_is_a_sentence_with_what_to_type(words: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config(*words)
