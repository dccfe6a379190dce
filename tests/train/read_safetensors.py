"""Prints what is in a safetensors file with nothing but the standard library: metadata, then one line per tensor."""

import json
import struct
import sys

FORMATS = {"F64": "d", "F32": "f", "I64": "q", "I32": "i", "U8": "B"}

with open(sys.argv[1], "rb") as file:
    (length,) = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(length))
    data = file.read()

for key, value in sorted(header.pop("__metadata__").items()):
    print("metadata", key, value)
for name, tensor in header.items():
    first, last = tensor["data_offsets"]
    values = (v for (v,) in struct.iter_unpack("<" + FORMATS[tensor["dtype"]], data[first:last]))
    print("tensor", name, tensor["dtype"], tensor["shape"], " ".join(float(v).hex() for v in values))
