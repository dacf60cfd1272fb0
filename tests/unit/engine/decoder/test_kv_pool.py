import torch
from transformers import LlamaConfig

from practicum.engine.decoder.attention import KvPool

CONFIG = LlamaConfig(
    hidden_size=64, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=3
)


def test_it_has_keys_and_values_for_each_layer_in_the_models_shape() -> None:
    pool = KvPool(CONFIG, 10, torch.bfloat16, torch.device("cpu"))
    assert len(pool.layers) == 3
    for keys, values in pool.layers:
        assert keys.shape == values.shape == (11, 2, 16)  # one to spare
        assert keys.dtype == values.dtype == torch.bfloat16


def test_growing_keeps_what_is_cached_where_it_is() -> None:
    pool = KvPool(CONFIG, 4, torch.float32, torch.device("cpu"))
    for keys, values in pool.layers:
        keys.normal_()
        values.normal_()
    before = [(keys.clone(), values.clone()) for keys, values in pool.layers]
    assert pool.spare == 4
    pool.grow(9)
    assert pool.spare == 9
    for (keys, values), (old_keys, old_values) in zip(pool.layers, before, strict=True):
        assert keys.shape == values.shape == (10, 2, 16)
        assert torch.equal(keys[:4], old_keys[:4])
        assert torch.equal(values[:4], old_values[:4])
