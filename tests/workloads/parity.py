"""Compares a forward and backward pass of a kith model with the same model written here with torch.

parity.py MODEL FILE SMOOTHING KEY=VALUE...: the safetensors FILE holds weights, input, target, and what kith computed.
"""

import json
import math
import struct
import sys

import numpy
import torch
from torch import nn
from torch.nn import functional as F

try:  # compared with as well, where it is
    import torchvision
except ImportError:
    torchvision = None

TYPES = {"F32": numpy.float32, "F64": numpy.float64, "I64": numpy.int64}


def read(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, about in header.items():
        if name == "__metadata__":
            continue
        first, last = about["data_offsets"]
        values = numpy.frombuffer(data[first:last], TYPES[about["dtype"]]).reshape(about["shape"])
        tensors[name] = torch.from_numpy(values.copy())
    return tensors


# Each model is functions of its weights `w`, by kith's names: nothing is shared with kith but these.


def norm(w, name, x):
    return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w.get(name + ".bias"))


def linear(w, name, x):
    return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))


def gpt(w, tokens, o):
    length, heads, width = tokens.shape[1], int(o["heads"]), int(o["width"])
    x = w["table.weight"][tokens] + w["positions.weight"][:length]
    future = torch.full((length, length), -math.inf).triu(1)
    for i in range(int(o["layers"])):
        b = f"block{i}."
        q, k, v = linear(w, b + "attention.query_key_value", norm(w, b + "attention_norm", x)).split(width, 2)
        parts = []
        for h in range(heads):
            part = slice(h * width // heads, (h + 1) * width // heads)
            scores = q[..., part] @ k[..., part].transpose(1, 2) / math.sqrt(width // heads)
            parts.append(torch.softmax(scores + future, 2) @ v[..., part])
        x = x + linear(w, b + "attention.out", torch.cat(parts, 2))
        hidden = F.gelu(linear(w, b + "widen", norm(w, b + "mlp_norm", x)), approximate=o["gelu"])
        x = x + linear(w, b + "narrow", hidden)
    return (norm(w, "norm", x) @ w["table.weight"].T).flatten(0, 1)


class Block(nn.Module):
    """torchvision's BasicBlock and Bottleneck."""

    def __init__(self, come, inner, stride, deep):
        super().__init__()
        shapes = [(inner, 1, 1), (inner, 3, stride), (4 * inner, 1, 1)] if deep else [(inner, 3, stride), (inner, 3, 1)]
        self.count, width = len(shapes), come
        for i, (to, side, step) in enumerate(shapes, 1):
            self.add_module(f"conv{i}", nn.Conv2d(width, to, side, step, side // 2, bias=False))
            self.add_module(f"bn{i}", nn.BatchNorm2d(to))
            width = to
        self.downsample = None
        if stride != 1 or come != width:
            self.downsample = nn.Sequential(nn.Conv2d(come, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        self.width = width

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            if i < self.count:
                y = F.relu(y)
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, o):
        super().__init__()
        deep, small = o["depth"] == "50", o["small"] == "1"
        first = (3, 1, 1) if small else (7, 2, 3)
        self.conv1 = nn.Conv2d(int(o["channels"]), 64, *first, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.pool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
        width = 64
        for stage, blocks in enumerate([3, 4, 6, 3] if deep else [2, 2, 2, 2]):
            layer = nn.Sequential()
            for i in range(blocks):
                layer.append(Block(width, 64 << stage, 2 if stage > 0 and i == 0 else 1, deep))
                width = layer[-1].width
            self.add_module(f"layer{stage + 1}", layer)
        self.fc = nn.Linear(width, int(o["classes"]))

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def transformer(w, pairs, o):
    """By torch's own nn.MultiheadAttention and layers, norms after the sums."""
    width, heads = int(o["width"]), int(o["heads"])

    def attend(name, x, to, **masks):
        stacked = torch.cat([w[f"{name}.{part}.weight"] for part in ("query", "key", "value")])
        biases = torch.cat([w[f"{name}.{part}.bias"] for part in ("query", "key", "value")])
        return F.multi_head_attention_forward(
            x.transpose(0, 1), to.transpose(0, 1), to.transpose(0, 1), width, heads, stacked, biases, None, None, False,
            0.0, w[name + ".out.weight"], w[name + ".out.bias"], need_weights=False, **masks)[0].transpose(0, 1)

    def embed(tokens):
        places = torch.zeros(tokens.shape[1], width)
        for pos in range(tokens.shape[1]):
            for i in range(width):
                angle = pos / 10000 ** ((i - i % 2) / width)
                places[pos, i] = math.cos(angle) if i % 2 else math.sin(angle)
        return w["table.weight"][tokens.clamp(min=0)] * math.sqrt(width) + places

    source, target = pairs[:, 0], pairs[:, 1]
    padded = source < 0
    future = torch.full((target.shape[1],) * 2, -math.inf).triu(1)
    x, y = embed(source), embed(target)
    for i in range(int(o["layers"])):
        b = f"encoder{i}."
        x = norm(w, b + "own_norm", x + attend(b + "own", x, x, key_padding_mask=padded))
        x = norm(w, b + "last_norm", x + linear(w, b + "narrow", F.relu(linear(w, b + "widen", x))))
    for i in range(int(o["layers"])):
        b = f"decoder{i}."
        y = norm(w, b + "own_norm", y + attend(b + "own", y, y, attn_mask=future))
        y = norm(w, b + "cross_norm", y + attend(b + "cross", y, x, key_padding_mask=padded))
        y = norm(w, b + "last_norm", y + linear(w, b + "narrow", F.relu(linear(w, b + "widen", y))))
    return (y @ w["table.weight"].T).flatten(0, 1)


def main():
    torch.set_num_threads(1)
    name, path, smoothing = sys.argv[1], sys.argv[2], float(sys.argv[3])
    options = dict(word.split("=") for word in sys.argv[4:])
    held = read(path)
    w = {key[7:]: value for key, value in held.items() if key.startswith("weight.")}
    before = {key: value.clone() for key, value in w.items()}
    if name == "resnet":
        model = ResNet(options).to(held["input"].dtype)
        model.load_state_dict(w)
        model.train()
        parameters, scores = dict(model.named_parameters()), model(held["input"])
    else:
        model = None
        parameters = {key: value.requires_grad_() for key, value in w.items()}
        scores = {"gpt": gpt, "transformer": transformer}[name](parameters, held["input"], options)
    loss = F.cross_entropy(scores, held["target"], label_smoothing=smoothing)
    loss.backward()
    wanted = {"scores": scores, "loss": loss}
    wanted.update({"gradient." + key: value.grad for key, value in parameters.items()})
    if model is not None:
        wanted.update({"buffer." + key: value for key, value in model.named_buffers()})
    if name == "resnet" and options["small"] == "0" and torchvision is not None:
        theirs = getattr(torchvision.models, "resnet" + options["depth"])(num_classes=int(options["classes"]))
        theirs.to(held["input"].dtype).load_state_dict(before)
        wanted["scores"] = theirs.train()(held["input"])
        F.cross_entropy(wanted["scores"], held["target"], label_smoothing=smoothing).backward()
        wanted.update({"gradient." + key: value.grad for key, value in theirs.named_parameters()})
    worst, where = 0.0, ""
    for key, value in wanted.items():
        got = held[key]
        assert got.shape == value.shape, f"{key}: {got.shape}, wanted {value.shape}"
        off = ((got - value).abs() / (1 + value.abs())).max().item()
        if not off <= worst:
            worst, where = off, key
    left = {key for key in held if key.split(".")[0] in ("gradient", "buffer")} - set(wanted)
    assert not left, f"kith has more: {left}"
    print(f"{len(wanted)} tensors {'agree' if worst < 1e-4 else 'differ'}: at most {worst:.2e} off ({where})")
    sys.exit(0 if worst < 1e-4 else 1)


if __name__ == "__main__":
    main()
