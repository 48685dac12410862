#!/usr/bin/env python3
"""Writes model.json and model.safetensors of this folder from the whole set of the model's cases. usage: make_model.py FOLDER

FOLDER has cases/NAME.json (token ids) and cases/NAME-model.safetensors with the `last_hidden_state` of the model's reference
implementation; masks are those of its first layer. Maps of all layers are in heads.safetensors."""
import json
import os
import sys

sys.dont_write_bytecode = True
from make_heads import HERE, save_tensors, tensors_of  # noqa: E402


def main():
    cases, texts, outputs = os.path.join(sys.argv[1], "cases"), {}, {}
    for file in sorted(os.listdir(cases)):
        name, ending = os.path.splitext(file)
        if ending != ".json":
            continue
        with open(os.path.join(cases, file), encoding="utf-8") as f:
            case = json.load(f)
        texts[name] = {k: case[k] for k in ("input_ids", "token_type_ids", "position_ids") if k in case} | (case.get("request") or {})
        mask = tensors_of(os.path.join(cases, name + "-layer0.safetensors")).get("attention_mask")
        if mask is not None:
            texts[name]["attention_mask"] = mask.astype(int).tolist()
        outputs[name] = tensors_of(os.path.join(cases, name + "-model.safetensors"))["last_hidden_state"]
    with open(os.path.join(HERE, "model.json"), "w", encoding="utf-8") as f:
        f.write("{\n%s\n}\n" % ",\n".join("%s: %s" % (json.dumps(n), json.dumps(t, separators=(",", ":"))) for n, t in texts.items()))
    save_tensors(os.path.join(HERE, "model.safetensors"), outputs)


if __name__ == "__main__":
    main()
