"""torchvision's ResNet-50 on the job of job.h, eager; orders and arguments as in eager.py."""
import sys

import torch
import torchvision

import eager


def main():
    device, width, batch = sys.argv[5], int(sys.argv[7]), int(sys.argv[8])
    torch.manual_seed(eager.SEED)
    model = torchvision.models.resnet50().to(device, memory_format=torch.channels_last)
    x = torch.randn(batch, 3, width, width).to(device, memory_format=torch.channels_last)
    y = (torch.arange(batch) % 1000).to(device)
    eager.serve(model, device, x, y)


main()
