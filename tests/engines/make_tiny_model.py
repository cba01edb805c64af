"""Make a Llama of 4 layers with random weights and a byte-level tokenizer, 6 MB, with nothing from outside.

Run by the interpreter of the engine's own environment: ``python make_tiny_model.py DIRECTORY``. What it says is
noise; its speed and its metrics are those of a real engine.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 512
SPECIAL = ["<unk>", "<s>", "</s>"]


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE over a few words; every byte is in the alphabet, so any text can be encoded."""
    tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["the quick brown fox jumps over the lazy dog"], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token=SPECIAL[0], bos_token=SPECIAL[1], eos_token=SPECIAL[2]
    )


def make_model() -> LlamaForCausalLM:
    """The same weights every time."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=2048,
    )
    return LlamaForCausalLM(config).to(torch.bfloat16)


def main() -> None:
    """Write model and tokenizer into the directory given."""
    target = Path(sys.argv[1])
    make_model().save_pretrained(target)
    make_tokenizer().save_pretrained(target)


if __name__ == "__main__":
    main()
