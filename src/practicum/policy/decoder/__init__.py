"""The decoder of a language model, as sampling and learning use it."""

from practicum.policy.decoder.burst import BurstRow, DenseBurst
from practicum.policy.decoder.decoder import Decoder, decoder_of
from practicum.policy.decoder.joined import JoinedDecoder
from practicum.policy.decoder.module import ModuleDecoder

__all__ = ["BurstRow", "Decoder", "DenseBurst", "JoinedDecoder", "ModuleDecoder", "decoder_of"]
