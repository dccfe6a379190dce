"""eager.py through torch.compile: the model and its loss as one compiled function."""
import torch

import eager

eager.main(torch.compile)
