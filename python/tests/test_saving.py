"""Save in one world, go on in another: the bits of a run that never stopped."""

import io
import os
import tempfile
import unittest

import torch

import kith
from support import DEVICE, loss_of, main, make_net, run_alone, run_workers

STEPS, SAVED = 8, 4

WRAPPED = lambda p: torch.optim.AdamW(p, lr=0.01)
CASES = {  # name: (optimizer, type, options)
    "awc": (WRAPPED, torch.float32, {"topology": "exp"}),
    "awc, bf16 wire": (WRAPPED, torch.float32, {"topology": "exp", "wire": "bf16"}),
    "awc, int8 wire": (WRAPPED, torch.float32, {"topology": "aer", "wire": "int8"}),
    "awc, bf16 parameters": (WRAPPED, torch.bfloat16, {"topology": "exp"}),
    "atc": (WRAPPED, torch.float64, {"topology": "exp", "algorithm": "atc"}),
    "allreduce": (WRAPPED, torch.float32, {"algorithm": "allreduce"}),
    "fused AdamW": (lambda p: kith.optim.AdamW(p, lr=0.01), torch.float32, {"topology": "exp", "wire": "bf16"}),
    "fused AdamW, bf16 parameters": (lambda p: kith.optim.AdamW(p, lr=0.01), torch.bfloat16, {"topology": "exp"}),
    "fused SGD": (lambda p: kith.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True), torch.float64, {"topology": "exp"}),
    "fused AccumAdamW": (lambda p: kith.optim.AccumAdamW(p, lr=0.01, commit_every=3), torch.float32, {"topology": "exp"}),
    "dsgt": (lambda p: kith.optim.Adam(p, lr=0.01), torch.float32, {"topology": "exp", "algorithm": "dsgt"}),
    "sgp": (lambda p: kith.optim.AdamW(p, lr=0.01), torch.float32, {"topology": "exp-directed", "algorithm": "sgp"}),
    "fused allreduce": (lambda p: kith.optim.AdamW(p, lr=0.01), torch.float32, {"algorithm": "allreduce"}),
}


def train(world, folder, resumes):
    """Every case; saves after SAVED steps, or goes on from there."""
    found = {}
    for name, (make, dtype, options) in CASES.items():
        net = make_net(dtype, seed=2 if resumes else 1)
        opt = make(net.parameters())
        model = kith.DecentralizedDataParallel(net, opt, bucket_bytes=60, **options)
        scheduler = torch.optim.lr_scheduler.StepLR(opt, 3, 0.5)
        path = os.path.join(folder, f"{name} {world.rank}")
        if resumes:
            saved = torch.load(path, map_location=DEVICE)
            model.load_state_dict(saved["model"])
            opt.load_state_dict(saved["optimizer"])
            scheduler.load_state_dict(saved["scheduler"])
            assert model.steps == SAVED
        while model.steps < STEPS:
            opt.zero_grad(set_to_none=True)
            loss_of(model, world.rank, model.steps, dtype).backward()
            opt.step()
            scheduler.step()
            if model.steps == SAVED and not resumes:
                state = {"model": model.state_dict(), "optimizer": opt.state_dict(), "scheduler": scheduler.state_dict()}
                torch.save(state, path)
        found[name] = [p.detach().clone().cpu() for p in net.parameters()]
        model.barrier()
        model.close()
    return found


class Resume(unittest.TestCase):
    def test_has_the_bits_of_a_run_that_never_stopped(self):
        with tempfile.TemporaryDirectory(prefix="kith-test-") as folder:
            whole = run_workers(4, train, folder, False)
            resumed = run_workers(4, train, folder, True)
        for rank in range(4):
            for name in CASES:
                with self.subTest(case=name, rank=rank):
                    for a, b in zip(whole[rank][name], resumed[rank][name]):
                        self.assertTrue(torch.equal(a, b))
        apart = [not torch.equal(a, b) for a, b in zip(whole[0]["awc"], whole[1]["awc"])]
        self.assertTrue(any(apart), "workers differ, so each needs its own file")


def keys_and_refusals(world):
    net = make_net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    model = kith.DecentralizedDataParallel(net, opt)
    state = {k: v.clone() if torch.is_tensor(v) else v for k, v in model.state_dict().items()}
    told = []
    for change in ({"workers": 7}, {"algorithm": "atc"}, {"format": 99}):
        wrong = dict({k: v + 1 if torch.is_tensor(v) else v for k, v in state.items()}, _extra_state={**state["_extra_state"], **change})
        try:
            model.load_state_dict(wrong)
        except kith.InputError as error:
            told.append(str(error))
    assert all(torch.equal(net.state_dict()[k[7:]], v) for k, v in state.items() if k != "_extra_state"), "nothing changed"
    plain = {k: v + 1 for k, v in state.items() if k != "_extra_state"}
    try:
        model.load_state_dict(plain)
    except RuntimeError as error:
        told.append(str(error))
    model.load_state_dict(plain, strict=False)
    return list(state), told, [(net.state_dict()[k[7:]] - v).cpu() for k, v in state.items() if k in plain]


def as_torchs(world):
    """The optimizer's state is torch's own: AdamW takes it up, and gives it back."""
    net = make_net()
    opt = kith.optim.AdamW(net.parameters(), lr=0.01, betas=(0.9, 0.999), weight_decay=0.1)
    model = kith.DecentralizedDataParallel(net, opt)
    for t in range(3):
        opt.zero_grad(set_to_none=True)
        loss_of(model, 0, t).backward()
        opt.step()
    buffer = io.BytesIO()
    torch.save(opt.state_dict(), buffer)
    other = make_net()
    other.load_state_dict(net.state_dict())
    theirs = torch.optim.AdamW(other.parameters(), lr=0.5)
    theirs.load_state_dict(torch.load(io.BytesIO(buffer.getvalue())))
    for t in range(3, 6):
        for n, o in ((model, opt), (other, theirs)):
            o.zero_grad(set_to_none=True)
            loss_of(n, 0, t).backward()
            o.step()
    opt.load_state_dict(theirs.state_dict())
    return [p.detach().cpu() for p in net.parameters()], [p.detach().cpu() for p in other.parameters()]


class StateDict(unittest.TestCase):
    def test_has_ddps_keys_and_refuses_what_does_not_fit(self):
        keys, told, moved = run_alone(keys_and_refusals)
        self.assertEqual(sorted(keys), ["_extra_state", "module.0.bias", "module.0.weight", "module.2.bias", "module.2.weight"])
        self.assertIn("saved with workers 7, this run has 1", told[0])
        self.assertIn("saved with algorithm atc, this run has awc", told[1])
        self.assertIn("format 99", told[2])
        self.assertIn("_extra_state", told[3])
        self.assertTrue(all((m - 1).abs().max() < 1e-14 for m in moved))

    def test_of_a_fused_optimizer_is_torchs(self):
        ours, theirs = run_alone(as_torchs)
        for a, b in zip(ours, theirs):
            self.assertLess((a - b).abs().max().item(), 1e-12)


if __name__ == "__main__":
    main()
