"""Decentralised training of PyTorch models: workers average with a few neighbours instead of all-reducing with everybody.

Ten lines::

    import kith, torch
    world = kith.init()                                     # torchrun, mpirun, srun, kith launch, or alone
    net = Net().to(world.device)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)      # or kith.optim.AdamW: fused with the mix
    model = kith.DecentralizedDataParallel(net, opt, topology="aer", wire="bf16")
    loader = DataLoader(data, batch_sampler=kith.Sampler(data, model, batch_size=32))
    for x, y in loader:
        opt.zero_grad(set_to_none=True)
        loss_fn(model(x), y).backward()
        opt.step()                                          # mixes; report = model.report()
    with model.average():
        if model.rank == 0:
            torch.save(net.state_dict(), "mean.pt")

What is here:

    init                         enters the world: who the workers are, and this one's device
    DecentralizedDataParallel    wraps a module and its optimizer; help(kith.DecentralizedDataParallel) has all options
    Sampler                      deals a data set out to the workers that are there, and anew when one is gone or has come
    optim                        SGD, Adam, AdamW and AccumAdamW that average and step in one pass
    Error, InputError, Bug       what goes wrong: the environment, your input, kith itself

The page to it is docs/python.md; examples/python has whole programs.
"""

from kith import _kith
from kith._kith import Bug, Error, InputError, StepReport
from kith._newcomer import Joined
from kith._parallel import DecentralizedDataParallel
from kith._sampler import Sampler
from kith._world import World, init
from kith import optim

for _thing in (Bug, Error, InputError, StepReport):
    _thing.__module__ = "kith"  # where people find it

__version__: str = _kith.__version__

__all__ = [
    "Bug",
    "DecentralizedDataParallel",
    "Error",
    "InputError",
    "Joined",
    "Sampler",
    "StepReport",
    "World",
    "init",
    "optim",
]
