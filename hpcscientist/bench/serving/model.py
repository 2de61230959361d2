"""Creates a Llama model with random weights, in the format of published open weights.

    python -m hpcscientist.bench.serving.model FOLDER [--hidden N] [--layers N] [--words N]

Like the serving interpreter, this one needs torch and transformers. The same seed gives the same
weights on the same machine.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HIDDEN, LAYERS = 768, 14  # about 100 million parameters
CONTEXT = 32_768  # tokens
WORDS = 8_000

_SYLLABLES = ("ba", "de", "fi", "go", "lu", "ma", "ne", "ri", "so", "tu")
END, USER, SYSTEM, ASSISTANT = SPECIAL = ["<|end|>", "<|user|>", "<|system|>", "<|assistant|>"]
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def make_random(
    folder: Path,
    hidden: int = 64,
    layers: int = 2,
    context: int = CONTEXT,
    seed: int = 0,
    words: int = 0,
) -> Path:
    """Write a Llama of random weights with a byte-level tokenizer; return its folder.

    `context` is in tokens; each byte of a prompt is one token. Replies are noise: without `words`
    they are bytes and end after some hundred tokens; otherwise they are mostly `words` made-up
    words and do not end. Bytes that are no text are the worst case for an engine: for each token it
    decodes the whole reply again, which takes more than all of its other work on the token.
    """
    import torch  # noqa: PLC0415 (heavy)
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = map("".join, itertools.islice(itertools.product(_SYLLABLES, repeat=4), words))
    vocabulary = [*letters, *(f"Ġ{word}" for word in made)]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(vocabulary)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    torch.manual_seed(seed)
    torch.set_default_dtype(torch.bfloat16 if words else torch.float32)
    save(folder, llama(tokenizer, hidden, layers, context), tokenizer)
    return folder


def llama(tokenizer: Any, hidden: int, layers: int, context: int, spread: float = 0.02) -> Any:
    """Return a model for a tokenizer; its weights are drawn with the standard deviation `spread`.

    `hidden` is a multiple of 32, from 512 on a multiple of 64.
    """
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415

    end = tokenizer.token_to_id(END)
    head = 64 if hidden >= 512 else 32  # vLLM's CPU engine has kernels for these
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=hidden,
        intermediate_size=hidden * 8 // 3 // 32 * 32,
        num_hidden_layers=layers,
        num_attention_heads=hidden // head,
        head_dim=head,
        max_position_embeddings=context,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=end,
        tie_word_embeddings=False,
        initializer_range=spread,
    )
    return LlamaForCausalLM(config)


def save(folder: Path, model: Any, tokenizer: Any) -> None:
    """Write model, tokenizer and chat template. Raises OSError."""
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415

    model.save_pretrained(folder)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=END,
        chat_template=TEMPLATE,
        model_max_length=model.config.max_position_embeddings,
        clean_up_tokenization_spaces=False,
    )
    fast.save_pretrained(folder)
    for path in folder.iterdir():  # weights are written readable only by their owner
        path.chmod(0o644)


def main(arguments: Sequence[str]) -> None:
    """Create a model from command-line arguments."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hidden", type=int, default=HIDDEN)
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--words", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    sizes = (given.hidden, given.layers)
    print(make_random(given.folder, *sizes, seed=given.seed, words=given.words))


if __name__ == "__main__":
    main(sys.argv[1:])
