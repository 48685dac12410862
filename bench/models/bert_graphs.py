"""A BERT folder as ONNX graphs of ONNX Runtime's fused operators: what its optimiser makes of models whose export it knows, and it does not
know every exporter's. Input `input_ids`, outputs `output` and, with maps, `maps_n`.

usage: bert_graphs.py FOLDER INPUT none|all TO"""
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import paths  # noqa: F401
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from folders import read_ids

OPSET = 23  # the first with Attention
FUSED = "com.microsoft"


class Graph:
    def __init__(self, folder, ids, with_maps):
        self.config = json.loads((Path(folder) / "config.json").read_text())
        self.weights = {name.removeprefix("bert."): np.asarray(tensor, np.float32) for name, tensor in load_file(Path(folder) / "model.safetensors").items()}
        self.batch, self.length = ids.shape
        self.d_model, self.heads = self.config["hidden_size"], self.config["num_attention_heads"]
        self.with_maps = with_maps
        self.nodes, self.constants = [], {}

    def constant(self, name, value):
        self.constants.setdefault(name, numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def weight(self, name):
        return self.constant(name, self.weights[name])

    def node(self, kind, inputs, outputs, domain="", **attributes):
        self.nodes.append(helper.make_node(kind, inputs, outputs if isinstance(outputs, list) else [outputs], domain=domain, **attributes))
        return outputs

    def matrix(self, name):
        return self.constant(name + ".matrix", self.weights[name + ".weight"].T)

    def embed(self):
        stem, eps = "embeddings.", self.config["layer_norm_eps"]
        added = self.weights[stem + "position_embeddings.weight"][:self.length] + self.weights[stem + "token_type_embeddings.weight"][0]
        self.node("Gather", [self.weight(stem + "word_embeddings.weight"), "input_ids"], "tokens")
        self.node("Add", ["tokens", self.constant("positions", added[None])], "embedded")
        return self.node("LayerNormalization", ["embedded", self.weight(stem + "LayerNorm.weight"), self.weight(stem + "LayerNorm.bias")], "x_0", epsilon=eps)

    def add_and_norm(self, product, x, name, bias, to):
        return self.node("SkipLayerNormalization", [product, x, self.weight(name + ".weight"), self.weight(name + ".bias"), self.weight(bias)], to,
                         FUSED, epsilon=self.config["layer_norm_eps"])

    def attention_fused(self, n, x):
        """One operator from x to the rows of heads."""
        parts = [f"encoder.layer.{n}.attention.self.{part}" for part in ("query", "key", "value")]
        w = self.constant(f"w_{n}", np.concatenate([self.weights[part + ".weight"].T for part in parts], 1))
        b = self.constant(f"b_{n}", np.concatenate([self.weights[part + ".bias"] for part in parts]))
        return self.node("Attention", [x, w, b], f"z_{n}", FUSED, num_heads=self.heads)

    def projections(self, n, x, one_product):
        parts = [f"encoder.layer.{n}.attention.self.{part}" for part in ("query", "key", "value")]
        if not one_product:
            return [self.node("MatMul", [x, self.matrix(part)], f"{part}.product") for part in parts], parts
        w = self.constant(f"w_{n}", np.concatenate([self.weights[part + ".weight"].T for part in parts], 1))
        self.node("MatMul", [x, w], f"qkv_{n}")
        return self.node("Split", [f"qkv_{n}", self.constant("thirds", np.array([self.d_model] * 3, np.int64))],
                         [f"{part}.product" for part in parts], axis=-1), parts

    def attention_multi_head(self, n, x, one_product):
        """ONNX Runtime's MultiHeadAttention, with the biases in it."""
        products, parts = self.projections(n, x, one_product)
        b = self.constant(f"b_{n}", np.concatenate([self.weights[part + ".bias"] for part in parts]))
        return self.node("MultiHeadAttention", [*products, b], f"z_{n}", FUSED, num_heads=self.heads)

    def attention_standard(self, n, x, one_product):
        """ONNX's own operator, which gives maps; mode 3 is the products after softmax."""
        products, parts = self.projections(n, x, one_product)
        biased = [self.node("Add", [product, self.weight(part + ".bias")], part + ".biased") for product, part in zip(products, parts)]
        outputs = [f"z_{n}", "", "", f"maps_{n}"] if self.with_maps else [f"z_{n}"]
        self.node("Attention", biased, outputs, q_num_heads=self.heads, kv_num_heads=self.heads, **({"qk_matmul_output_mode": 3} if self.with_maps else {}))
        return f"z_{n}"

    def attention_products(self, n, x):
        """The textbook's graph."""
        products, parts = self.projections(n, x, False)
        shape = self.constant("heads", np.array([self.batch, self.length, self.heads, self.d_model // self.heads], np.int64))
        for product, part in zip(products, parts):
            self.node("Add", [product, self.weight(part + ".bias")], part + ".biased")
            self.node("Reshape", [part + ".biased", shape], part + ".heads")
            self.node("Transpose", [part + ".heads"], part + ".by_head", perm=[0, 2, 3, 1] if part.endswith("key") else [0, 2, 1, 3])
        query, key, value = (part + ".by_head" for part in parts)
        self.node("MatMul", [query, key], f"products_{n}")
        self.node("Mul", [f"products_{n}", self.constant("scale", np.float32((self.d_model // self.heads) ** -0.5))], f"scores_{n}")
        self.node("Softmax", [f"scores_{n}"], f"maps_{n}", axis=-1)
        self.node("MatMul", [f"maps_{n}", value], f"by_head_{n}")
        self.node("Transpose", [f"by_head_{n}"], f"by_row_{n}", perm=[0, 2, 1, 3])
        return self.node("Reshape", [f"by_row_{n}", self.constant("rows", np.array([self.batch, self.length, self.d_model], np.int64))], f"z_{n}")

    def layer(self, n, x, attention, last):
        stem = f"encoder.layer.{n}."
        self.node("MatMul", [attention(self, n, x), self.matrix(stem + "attention.output.dense")], f"attended_{n}")
        x = self.add_and_norm(f"attended_{n}", x, stem + "attention.output.LayerNorm", stem + "attention.output.dense.bias", f"h_{n}")
        self.node("MatMul", [x, self.matrix(stem + "intermediate.dense")], f"up_{n}")
        self.node("BiasGelu", [f"up_{n}", self.weight(stem + "intermediate.dense.bias")], f"hidden_{n}", FUSED)
        self.node("MatMul", [f"hidden_{n}", self.matrix(stem + "output.dense")], f"down_{n}")
        return self.add_and_norm(f"down_{n}", x, stem + "output.LayerNorm", stem + "output.dense.bias", "output" if last else f"x_{n + 1}")

    def model(self, attention):
        layers = self.config["num_hidden_layers"]
        x = self.embed()
        for n in range(layers):
            x = self.layer(n, x, attention, n + 1 == layers)
        info, b, t = helper.make_tensor_value_info, self.batch, self.length
        maps = [info(f"maps_{n}", TensorProto.FLOAT, [b, self.heads, t, t]) for n in range(layers if self.with_maps else 0)]
        graph = helper.make_graph(self.nodes, "model", [info("input_ids", TensorProto.INT64, [b, t])],
                                  [info("output", TensorProto.FLOAT, [b, t, self.d_model]), *maps], list(self.constants.values()))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)], ir_version=10)


WITH_MAPS = {
    "hand-attention-23": lambda graph, n, x: graph.attention_standard(n, x, False),
    "hand-attention-23-one-product": lambda graph, n, x: graph.attention_standard(n, x, True),
    "hand-products": Graph.attention_products,
}
VARIANTS = WITH_MAPS | {
    "hand-attention": Graph.attention_fused,
    "hand-multi-head": lambda graph, n, x: graph.attention_multi_head(n, x, False),
    "hand-multi-head-one-product": lambda graph, n, x: graph.attention_multi_head(n, x, True),
}


def main():
    folder, path, maps, to = sys.argv[1:5]
    Path(to).mkdir(parents=True, exist_ok=True)
    for name, attention in (WITH_MAPS if maps == "all" else VARIANTS).items():
        onnx.save(Graph(folder, read_ids(path), maps == "all").model(attention), Path(to) / f"{name}.onnx")


if __name__ == "__main__":
    main()
