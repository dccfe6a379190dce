"""A small convolutional network on images of digits, with a DistributedSampler and torch's own optimizer.

    kith launch --workers 4 -- python3 examples/python/mnist.py                     # images that it draws itself
    kith launch --workers 4 -- python3 examples/python/mnist.py --data FOLDER       # MNIST's or Fashion-MNIST's files

FOLDER holds train-images-idx3-ubyte and its three companions, unpacked.
"""

import argparse
import os

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import kith


def drawn_digits(count, seed):
    """Ten blotches, each shifted, dimmed and sprinkled with noise."""
    blotches = F.interpolate(torch.rand(10, 1, 7, 7, generator=torch.Generator().manual_seed(0)), 28)
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=generator)
    shifts = torch.randint(-3, 4, (count, 2), generator=generator).tolist()
    images = torch.stack([blotches[label].roll(shift, (1, 2)) for label, shift in zip(labels, shifts)])
    images = images * (0.5 + torch.rand(count, 1, 1, 1, generator=generator))
    return TensorDataset(images + 0.5 * torch.randn(images.shape, generator=generator), labels)


def idx_files(folder, part):
    """MNIST's format: 4 bytes that tell the number of dimensions, their sizes, then bytes."""

    def read(name):
        with open(os.path.join(folder, name), "rb") as file:
            content = file.read()
        dimensions = content[3]
        sizes = [int.from_bytes(content[4 + 4 * d : 8 + 4 * d], "big") for d in range(dimensions)]
        return torch.frombuffer(bytearray(content[4 + 4 * dimensions :]), dtype=torch.uint8).reshape(sizes)

    images = read(f"{part}-images-idx3-ubyte").unsqueeze(1).float() / 255
    return TensorDataset(images, read(f"{part}-labels-idx1-ubyte").long())


def make_net():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=None)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--images", type=int, default=4000, help="to draw")
    parser.add_argument("--batch", type=int, default=32, help="per worker")
    parser.add_argument("--topology", default="exp")
    parser.add_argument("--algorithm", default="awc")
    parser.add_argument("--device", default=None)
    args = parser.parse_args()

    world = kith.init(device=args.device, facts={"batch": args.batch, "epochs": args.epochs})
    train = idx_files(args.data, "train") if args.data else drawn_digits(args.images, 1)
    test = idx_files(args.data, "t10k") if args.data else drawn_digits(1000, 2)
    sampler = DistributedSampler(train, num_replicas=world.size, rank=world.rank)
    loader = DataLoader(train, args.batch, sampler=sampler, drop_last=True)

    net = make_net().to(world.device)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    model = kith.DecentralizedDataParallel(net, opt, topology=args.topology, algorithm=args.algorithm)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            opt.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(images.to(world.device)), labels.to(world.device))
            loss.backward()
            opt.step()
        # Everybody judges the mean model on a part of its own.
        with model.average(), torch.no_grad():
            net.eval()
            images, labels = (t[world.rank :: world.size].to(world.device) for t in test.tensors)
            right = (net(images).argmax(1) == labels).sum().item()
            net.train()
        total = sum(model.gather(right))
        if world.rank == 0:
            print(f"epoch {epoch}: accuracy of the mean model {100 * total / len(test):.1f} %", flush=True)


if __name__ == "__main__":
    main()
