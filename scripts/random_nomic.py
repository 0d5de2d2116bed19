"""Make a NomicBert with random weights, as a SentenceTransformer folder with an ONNX file beside it.

It knows nothing, but loads and runs as the real one does: for parity between the runtimes and for the bench.
Needs what `make test-torch` installs.

python scripts/random_nomic.py tests/data/tiny-nomic           the small one that the tests use
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import NomicBertConfig, NomicBertModel, PreTrainedTokenizerFast

ROOT = Path(__file__).resolve().parents[1]
TINY = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 512,
}
TINY_WORDS = 800
LONGEST = 512


def words() -> Iterator[str]:
    """Text of the repository's own, for the tokenizer to learn from."""
    for path in sorted((ROOT / "examples" / "documents").glob("*.md")):
        yield path.read_text(encoding="utf-8")


def train_tokenizer(texts: Iterable[str], size: int) -> Tokenizer:
    """A WordPiece tokenizer as BERT has it."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=size, special_tokens=special))
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    return tokenizer


class _Hidden(torch.nn.Module):
    """The model with its one output that counts, and inputs by position."""

    def __init__(self, model: NomicBertModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def export(model: Any, path: Path) -> None:
    """The model as ONNX, for any number of texts of any length."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts, tokens = torch.export.Dim("texts", min=1), torch.export.Dim("tokens", min=2, max=LONGEST)
    example = (torch.ones(2, 9, dtype=torch.int64), torch.ones(2, 9, dtype=torch.int64))
    torch.onnx.export(
        _Hidden(model).eval(),
        example,
        str(path),
        input_names=["input_ids", "attention_mask"],
        output_names=["last_hidden_state"],
        dynamic_shapes=({0: texts, 1: tokens}, {0: texts, 1: tokens}),
        dynamo=True,
        external_data=False,
        verbose=False,
    )


def make(folder: Path, *, tokenizer: Tokenizer | None = None, seed: int = 7, **config: int) -> None:
    """Write the model. Without a tokenizer a small one is trained; without config it has the full size."""
    torch.manual_seed(seed)
    tokenizer = tokenizer or train_tokenizer(words(), TINY_WORDS)
    config.setdefault("vocab_size", tokenizer.get_vocab_size())
    model = NomicBertModel(NomicBertConfig(**config)).eval()
    # Weights as the library draws them leave the layers almost without effect; wider ones tell the runtimes
    # apart where they differ.
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.15)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=LONGEST,
    )
    with tempfile.TemporaryDirectory() as plain:
        model.save_pretrained(plain)
        fast.save_pretrained(plain)
        transformer = Transformer(plain, max_seq_length=LONGEST)
        pooling = Pooling(transformer.get_embedding_dimension())
        SentenceTransformer(modules=[transformer, pooling], device="cpu").save(
            str(folder), create_model_card=False
        )
    export(model, folder / "onnx" / "model.onnx")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    shutil.rmtree(folder, ignore_errors=True)
    make(folder, **TINY)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            print(f"{path.stat().st_size:>9,}  {path.relative_to(folder)}")


if __name__ == "__main__":
    main()
