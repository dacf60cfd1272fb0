"""`ServedBase`: one base model in memory, and samplers of it with and without adapters."""

from pathlib import Path

from practicum.core.errors import UserError
from practicum.core.sampling import Completion, SamplingRequest
from practicum.engine.compute_thread import computed
from practicum.engine.decoder.decoders import FusedDecoder, decoder_of
from practicum.engine.decoder.layers import can_take_apart
from practicum.engine.decoder.row_adapters import RowAdapter, RowAdapters, read_row_adapter
from practicum.engine.models.loading import LoadedModel
from practicum.engine.sampling.sampling_engine import TorchEngine


class AdapterSampler:
    """Samples with one adapter, or with the base model alone, on an engine that others use too."""

    def __init__(self, engine: TorchEngine, adapter: RowAdapter | None) -> None:
        self._engine = engine
        self._adapter = adapter

    async def sample(self, request: SamplingRequest) -> Completion:
        """One completion, from the weights that `fingerprint` names and no others."""
        return await self._engine.sample(request, self._adapter)

    def fingerprint(self) -> str:
        """Which weights it samples from; never another while it lives."""
        adapter = self._adapter
        return self._engine.fingerprint() if adapter is None else adapter.fingerprint

    def forget(self) -> None:
        """Nothing: its weights never change."""

    @property
    def context_tokens(self) -> int:
        """See `TorchEngine`."""
        return self._engine.context_tokens


class ServedBase:
    """A base model with any number of adapters over it, all sampled together."""

    def __init__(self, loaded: LoadedModel, max_slots: int) -> None:
        causal_lm = loaded.module
        rows = RowAdapters() if can_take_apart(causal_lm) else None
        decoder = decoder_of(causal_lm) if rows is None else FusedDecoder(causal_lm, rows)
        self.name = loaded.name
        self.fingerprint: str = loaded.fingerprint
        self.codec = loaded.codec
        self.tokenizer = loaded.tokenizer
        self._family = str(causal_lm.config.model_type)
        self._decoder = decoder
        self.engine = TorchEngine(
            causal_lm,
            decoder,
            loaded.tokenizer,
            loaded.codec,
            fingerprint=lambda: loaded.fingerprint,
            max_slots=max_slots,
            rows=rows,
        )

    def sampler(self, adapter: Path | None = None) -> AdapterSampler:
        """A sampler of the base, or of the adapter in a folder over it; for any thread."""
        return AdapterSampler(self.engine, None if adapter is None else self._read(adapter))

    def _read(self, folder: Path) -> RowAdapter:
        if not isinstance(self._decoder, FusedDecoder):
            raise UserError(
                f"adapters of {self._family} models cannot be served over their base (Llama, "
                f"Mistral, Qwen2 and Qwen3 can); type: practicum export {folder} --to merged DIR, "
                "and serve that folder"
            )
        return read_row_adapter(folder, self._decoder.parts, self.fingerprint)


@computed
def load_served_base(loaded: LoadedModel, max_slots: int) -> ServedBase:
    """The base model, its layers joined for serving."""
    return ServedBase(loaded, max_slots)
