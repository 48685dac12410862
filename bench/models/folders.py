"""Hugging Face folders with random weights of well-known sizes, and the inputs of the programs under comparison.

usage: folders.py KIND FOLDER        KIND: bert-base, llama, and the same with -bf16

Numbers repeat after some millions: their values decide no time."""
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

BERT_BASE = {"model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
             "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
             "pad_token_id": 0, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "architectures": ["BertModel"]}
LLAMA = {"model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 4,
         "head_dim": 64, "intermediate_size": 2816, "vocab_size": 32000, "max_position_embeddings": 4096, "hidden_act": "silu",
         "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False,
         "architectures": ["LlamaModel"]}


def bert_shapes(config):
    d, d_ff = config["hidden_size"], config["intermediate_size"]
    shapes = {"embeddings.word_embeddings.weight": (config["vocab_size"], d), "embeddings.position_embeddings.weight": (config["max_position_embeddings"], d),
              "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], d)}

    def linear(name, out, into):
        shapes[name + ".weight"], shapes[name + ".bias"] = (out, into), (out,)

    def norm(name):
        shapes[name + ".weight"], shapes[name + ".bias"] = (d,), (d,)

    norm("embeddings.LayerNorm")
    for n in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{n}."
        for name in ("query", "key", "value"):
            linear(layer + "attention.self." + name, d, d)
        linear(layer + "attention.output.dense", d, d)
        norm(layer + "attention.output.LayerNorm")
        linear(layer + "intermediate.dense", d_ff, d)
        linear(layer + "output.dense", d, d_ff)
        norm(layer + "output.LayerNorm")
    return shapes


def llama_shapes(config):
    d, d_ff, d_k = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    keys = config["num_key_value_heads"] * d_k
    shapes = {"embed_tokens.weight": (config["vocab_size"], d), "norm.weight": (d,)}
    for n in range(config["num_hidden_layers"]):
        layer = f"layers.{n}."
        for name, out, into in (("self_attn.q_proj", config["num_attention_heads"] * d_k, d), ("self_attn.k_proj", keys, d),
                                ("self_attn.v_proj", keys, d), ("self_attn.o_proj", d, config["num_attention_heads"] * d_k),
                                ("mlp.gate_proj", d_ff, d), ("mlp.up_proj", d_ff, d), ("mlp.down_proj", d, d_ff)):
            shapes[layer + name + ".weight"] = (out, into)
        shapes[layer + "input_layernorm.weight"] = shapes[layer + "post_attention_layernorm.weight"] = (d,)
    return shapes


def random_tensors(shapes):
    """Matrices that keep the size of what they multiply, gains near 1, biases near 0."""
    noise = np.random.default_rng(42).standard_normal(1 << 22, np.float32)
    tensors, start = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        numbers = np.resize(np.roll(noise, -start), size).reshape(shape)
        start += size % noise.size + 1
        if len(shape) == 2 and "mbed" not in name:
            numbers = numbers / np.float32(np.sqrt(shape[1]))
        elif len(shape) == 1:
            numbers = numbers * np.float32(0.02) + np.float32("orm" in name and name.endswith("weight"))
        tensors[name] = np.ascontiguousarray(numbers, np.float32)
    return tensors


def write_folder(kind, folder):
    """Once: a folder that is there is left as it is."""
    folder = Path(folder)
    if (folder / "config.json").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    name, _, dtype = kind.partition("-bf16")
    config = {"bert-base": BERT_BASE, "llama": LLAMA}[name]
    tensors = random_tensors((bert_shapes if name == "bert-base" else llama_shapes)(config))
    if kind.endswith("-bf16"):
        import ml_dtypes
        tensors = {name: numbers.astype(ml_dtypes.bfloat16) for name, numbers in tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    return folder


@dataclass(frozen=True)
class Ids:
    batch: int
    length: int

    def write(self, path, vocabulary):
        ids = np.random.default_rng(7).integers(0, vocabulary, (self.batch, self.length))
        with open(path, "wb") as file:
            np.array([self.batch, self.length], np.uint64).tofile(file)
            ids.astype(np.uint32).tofile(file)


def flop(config, ids):
    """Of the products; of causal scores half."""
    d, d_ff, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    llama = config["model_type"] == "llama"
    d_k = config.get("head_dim") or d // heads
    projections = 2 * d * d_k * (heads + config.get("num_key_value_heads", heads))
    ffn = (3 if llama else 2) * d * d_ff
    scores = heads * d_k * ids.length * (1 if llama else 2)
    return 2 * ids.batch * ids.length * config["num_hidden_layers"] * (projections + ffn + scores)


def read_ids(path):
    """int64 [B, T]."""
    with open(path, "rb") as file:
        batch, length = (int(n) for n in np.fromfile(file, np.uint64, 2))
        return np.fromfile(file, np.uint32, batch * length).astype(np.int64).reshape(batch, length)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write_folder(*sys.argv[1:])
