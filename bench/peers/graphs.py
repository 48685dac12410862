"""Multi-head attention as ONNX graphs: input x, outputs `output` and `attention`, weights as constants.

Which of them ONNX Runtime runs fastest differs by shape and release, so compare.py tries them all. Not among them: its own operators
(com.microsoft). Attention has no such output, and that of MultiHeadAttention is the products before softmax.
"""
import functools

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
OPSET_ATTENTION = 23  # the first with Attention


class Graph:
    def __init__(self, task, opset):
        self.task, self.opset = task, opset
        self.nodes, self.constants = [], []

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def shape(self, name, *sizes):
        return self.constant(name, np.array(sizes, np.int64))

    def node(self, kind, inputs, outputs, domain="", **attributes):
        self.nodes.append(helper.make_node(kind, inputs, outputs if isinstance(outputs, list) else [outputs], domain=domain, **attributes))
        return outputs

    def model(self):
        task = self.task
        x = [task.batch, task.length, task.d_model]
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes, "attention", [info("x", TensorProto.FLOAT, x)],
            [info("output", TensorProto.FLOAT, x),
             info("attention", TensorProto.FLOAT, [task.batch, task.heads, task.length, task.length])], self.constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def project(graph, fused):
    """Query, key and value, each [B, T, d_model]."""
    task = graph.task
    if fused:
        w_qkv = graph.constant("w_qkv", np.concatenate([task.w_q, task.w_k, task.w_v], axis=1))
        graph.node("MatMul", ["x", w_qkv], "qkv")
        graph.shape("thirds", *[task.d_model] * 3)
        return graph.node("Split", ["qkv", "thirds"], ["query", "key", "value"], axis=-1)
    for name, weights in (("query", task.w_q), ("key", task.w_k), ("value", task.w_v)):
        graph.node("MatMul", ["x", graph.constant("w_" + name, weights)], name)
    return ["query", "key", "value"]


def project_output(graph, concatenated):
    graph.node("MatMul", [concatenated, graph.constant("w_o", graph.task.w_o)], "output")
    return graph.model()


def with_products(task, fused, transpose_once):
    """The textbook's graph. The key is transposed at once (one copy), or by a node of its own, which ONNX Runtime fuses into the product."""
    graph = Graph(task, OPSET)
    graph.shape("heads", task.batch, task.length, task.heads, task.d_k)
    for name in project(graph, fused):
        graph.node("Reshape", [name, "heads"], name + "_heads")
        graph.node("Transpose", [name + "_heads"], name + "_by_head", perm=[0, 2, 3, 1] if name == "key" and transpose_once else [0, 2, 1, 3])
    key = "key_by_head" if transpose_once else graph.node("Transpose", ["key_by_head"], "key_transposed", perm=[0, 1, 3, 2])
    graph.node("MatMul", ["query_by_head", key], "products")
    graph.node("Mul", ["products", graph.constant("scale", task.scale)], "scores")
    return attend(graph)


def with_one_transpose(task):
    """Query, key and value come out of one Transpose; Split then copies whole thirds."""
    graph = Graph(task, OPSET)
    w_qkv = graph.constant("w_qkv", np.concatenate([task.w_q, task.w_k, task.w_v], axis=1))
    graph.node("MatMul", ["x", w_qkv], "qkv")
    graph.shape("five", task.batch, task.length, 3, task.heads, task.d_k)
    graph.node("Reshape", ["qkv", "five"], "qkv_five")
    graph.node("Transpose", ["qkv_five"], "qkv_by_head", perm=[2, 0, 3, 1, 4])
    for i, name in enumerate(("query", "key", "value")):
        graph.node("Gather", ["qkv_by_head", graph.constant(f"index_{i}", np.array(i, np.int64))], name + "_by_head", axis=0)
    graph.node("Transpose", ["key_by_head"], "key_transposed", perm=[0, 1, 3, 2])
    graph.node("MatMul", ["query_by_head", "key_transposed"], "products")
    graph.node("Mul", ["products", graph.constant("scale", task.scale)], "scores")
    return attend(graph)


def attend(graph):
    graph.node("Softmax", ["scores"], "attention", axis=-1)
    graph.node("MatMul", ["attention", "value_by_head"], "z")
    graph.node("Transpose", ["z"], "z_by_row", perm=[0, 2, 1, 3])
    graph.shape("rows", graph.task.batch, graph.task.length, graph.task.d_model)
    graph.node("Reshape", ["z_by_row", "rows"], "concatenated")
    return project_output(graph, "concatenated")


def with_attention(task, fused):
    """ONNX's own operator; mode 3 gives the products after softmax."""
    graph = Graph(task, OPSET_ATTENTION)
    graph.node("Attention", project(graph, fused), ["concatenated", "", "", "attention"], q_num_heads=task.heads, kv_num_heads=task.heads,
               qk_matmul_output_mode=3)
    return project_output(graph, "concatenated")


VARIANTS = {
    "onnx-graph/one-product": functools.partial(with_products, fused=True, transpose_once=True),
    "onnx-graph/one-product-transb": functools.partial(with_products, fused=True, transpose_once=False),
    "onnx-graph/one-transpose": with_one_transpose,
    "onnx-graph/three-products": functools.partial(with_products, fused=False, transpose_once=True),
    "onnx-graph/three-products-transb": functools.partial(with_products, fused=False, transpose_once=False),
    "onnx-attention/one-product": functools.partial(with_attention, fused=True),
    "onnx-attention/three-products": functools.partial(with_attention, fused=False),
}
