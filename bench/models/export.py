"""Writes a Hugging Face folder's model as ONNX graphs: as exported, and then rewritten with ONNX Runtime's own optimiser for transformers.

usage: export.py FOLDER INPUT none|all TO

Two exporters, two ways of attention in the model. What fails is left out, and said; the last hidden state is `output`, the maps of layer n
are `maps_n`. TO/VARIANT.onnx."""
import sys
import warnings
from pathlib import Path

import onnx
import paths  # noqa: F401
import torch

from folders import read_ids
from hugging_face import Outputs, load


def names(config, maps):
    return ["output", *(f"maps_{n}" for n in range(config.num_hidden_layers if maps else 0))]


def export(model, ids, maps, dynamo, to):
    with torch.inference_mode():
        torch.onnx.export(Outputs(model, maps), (torch.from_numpy(ids),), str(to), input_names=["input_ids"], output_names=names(model.config, maps),
                          dynamo=dynamo, **({"optimize": True, "external_data": False, "verbose": False} if dynamo else {"opset_version": 17}))


def optimise(path, config, to):
    from onnxruntime.transformers import optimizer
    made = optimizer.optimize_model(str(path), model_type="bert", num_heads=config.num_attention_heads, hidden_size=config.hidden_size, opt_level=1)
    made.save_model_to_file(str(to))
    return made.get_fused_operator_statistics()


def loads(path):
    import onnxruntime
    try:
        onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001
        return False
    return True


def main():
    folder, path, maps, to = sys.argv[1:5]
    to = Path(to)
    to.mkdir(parents=True, exist_ok=True)
    ids, wanted = read_ids(path), maps == "all"
    for attention in ("eager",) if wanted else ("eager", "sdpa"):  # sdpa gives no maps
        for exporter, dynamo in (("script", False), ("dynamo", True)):
            plain, rewritten = to / f"{attention}-{exporter}.onnx", to / f"{attention}-{exporter}-optimised.onnx"
            try:
                export(load(folder, attention), ids, wanted, dynamo, plain)
                config = load(folder).config
                fused = optimise(plain, config, rewritten)
                if not loads(rewritten):
                    rewritten.unlink()
                    print(f"{rewritten.name} left out: ONNX Runtime does not load what its optimiser wrote", file=sys.stderr)
                    continue
                print(f"{rewritten.name}: {len(onnx.load(rewritten).graph.node)} nodes,", {k: v for k, v in fused.items() if v}, file=sys.stderr)
            except Exception as error:  # noqa: BLE001: an exporter may fail in any way, and others are left
                print(f"{attention}-{exporter} left out: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
    if not list(to.glob("*.onnx")):
        sys.exit("nothing could be exported")


warnings.simplefilter("ignore")
main()
