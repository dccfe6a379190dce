"""export_test.py KITH: what `kith export` writes is the model that was trained, as others read it.

Trains a tiny GPT, exports it, and compares the scores of the export, read in Hugging Face's layout, with those of the run's own
model.safetensors. Where transformers is installed it reads the export, too.
"""

import os
import subprocess
import sys
import tempfile

import torch

sys.dont_write_bytecode = True
import parity

try:
    import transformers
except ImportError:
    transformers = None

OURS = {"wte": "table", "wpe": "positions", "ln_f": "norm", "ln_1": "attention_norm", "ln_2": "mlp_norm", "attn.c_attn": "attention.query_key_value",
        "attn.c_proj": "attention.out", "mlp.c_fc": "widen", "mlp.c_proj": "narrow"}
SHAPE = {"layers": 2, "heads": 2, "width": 32, "context": 16, "vocabulary": 256}


def by_our_names(tensors):
    """Of Hugging Face's layout, whose matrices have their inputs first."""
    named = {}
    for name, value in tensors.items():
        words = name.removeprefix("transformer.").split(".")
        block = f"block{words[1]}." if words[0] == "h" else ""
        module, kind = ".".join(words[2:-1] if block else words[:-1]), words[-1]
        turned = kind == "weight" and module.startswith(("attn.", "mlp."))
        named[f"{block}{OURS[module]}.{kind}"] = value.T if turned else value
    return named


def main():
    kith = sys.argv[1]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    tokens = torch.randint(SHAPE["vocabulary"], (3, SHAPE["context"]))
    with tempfile.TemporaryDirectory() as folder:
        run, to = os.path.join(folder, "run"), os.path.join(folder, "exported")
        settings = [f"model.{key}={value}" for key, value in SHAPE.items()] + ["train.steps=3", "train.eval_every=0", "train.eval_samples=8", "model.gelu=tanh"]
        subprocess.run([kith, "train", "--workers", "1", "--out", run, *(word for one in settings for word in ("--set", one))], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run([kith, "export", run, "--to", to], check=True, stdout=subprocess.DEVNULL)
        options = {**SHAPE, "gelu": "tanh"}
        want = parity.gpt(parity.read(os.path.join(run, "model.safetensors")), tokens, options)
        scores = {"its own layout": parity.gpt(by_our_names(parity.read(os.path.join(to, "model.safetensors"))), tokens, options)}
        if transformers is not None:
            model = transformers.GPT2LMHeadModel.from_pretrained(to).eval()
            scores["transformers"] = model(tokens).logits.detach().flatten(0, 1)
    for reader, got in scores.items():
        off = (got - want).abs().max().item()
        print(f"{reader}: at most {off:.2e} off")
        assert off < 1e-4, reader


main()
