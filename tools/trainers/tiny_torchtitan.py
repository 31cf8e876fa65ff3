"""torchtitan's own debug model (6 layers, 6.2M parameters) as `--module tiny_torchtitan --config tiny`, on text made from nothing."""
import json
import os
import pathlib
import random

# The same as a Hugging Face configuration, which trainwright reads.
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 2048, "hidden_size": 256,
          "intermediate_size": 768, "num_hidden_layers": 6, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 16,
          "max_position_embeddings": 131072, "tie_word_embeddings": False}


def tiny():
    from torchtitan.models.common.attention import ScaledDotProductAttention
    from torchtitan.models.llama3.config_registry import llama3_debugmodel
    config = llama3_debugmodel()
    for layer in config.model_spec.model.layers:  # flexible attention is compiled, which takes minutes here
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    config.hf_assets_path = os.environ["TINY_ASSETS"] + "/tokenizer"
    config.dataloader.dataset_path = os.environ["TINY_ASSETS"] + "/data"
    config.metrics.disable_color_printing = True
    config.training.disable_cuda_graphs = True  # there is no CUDA
    config.debug.seed = 0
    return config


def make_assets(folder: pathlib.Path) -> None:
    """A tokenizer and 2,000 documents of 400 words, the frequent ones first."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    chance = random.Random(0)
    words, weights = [f"w{i:03d}" for i in range(400)], [1 / (i + 1) for i in range(400)]
    documents = [" ".join(chance.choices(words, weights=weights, k=chance.randint(40, 200))) for _ in range(2000)]
    for name in ("tokenizer", "data"):
        (folder / name).mkdir(parents=True)
    (folder / "data/train.json").write_text("\n".join(json.dumps({"text": text}) for text in documents))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(documents, trainers.BpeTrainer(vocab_size=1024, special_tokens=["<|bos|>", "<|eos|>"]))
    tokenizer.save(str(folder / "tokenizer/tokenizer.json"))
    (folder / "tokenizer/tokenizer_config.json").write_text(json.dumps({"bos_token": "<|bos|>", "eos_token": "<|eos|>"}))


if __name__ == "__main__":
    import sys
    make_assets(pathlib.Path(sys.argv[1]))
