"""Hugging Face's own model: for torch_peer.py, and for export.py."""
import torch
from transformers import AutoModel


def load(folder, attention="eager"):
    model = AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation=attention, local_files_only=True)
    model.config.use_cache = False
    if hasattr(model, "pooler"):
        model.pooler = None  # its output is not asked for
    return model.eval()


class Outputs(torch.nn.Module):
    """Ids to the last hidden state, and with `maps` the maps of each layer behind it."""

    def __init__(self, model, maps):
        super().__init__()
        self.model, self.maps = model, maps

    def forward(self, input_ids):
        made = self.model(input_ids=input_ids, output_attentions=self.maps)
        return (made.last_hidden_state, *made.attentions) if self.maps else (made.last_hidden_state,)
