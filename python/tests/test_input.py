"""Bad input: the message names the value, the place and the remedy."""

import os
import subprocess
import sys
import tempfile
import unittest

import torch

import kith
from support import DEVICE, loss_of, main, make_net, message_of, run_alone, set_environment


def options(_):
    def told(**given):
        net = make_net()
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        return message_of(kith.InputError, lambda: kith.DecentralizedDataParallel(net, opt, **given))

    return [
        told(topology="exq"),
        told(algorithm="awk"),
        told(algorithm="dsgt"),
        told(wire="bf17"),
        told(buffers="mixed"),
        told(non_finite="ignore"),
        told(on_lost="shrug"),
        told(nodes="3x2"),
        told(mix_every=0),
        told(patience=0.0),
        told(bucket_bytes=0),
    ]


def modules(_):
    def told(net, opt=None):
        opt = opt or torch.optim.SGD(net.parameters(), lr=0.1)
        return message_of(kith.InputError, lambda: kith.DecentralizedDataParallel(net, opt))

    net = make_net()
    holes = torch.nn.Linear(4, 4)
    holes.weight = torch.nn.Parameter(torch.zeros(4, 8)[:, ::2])
    shared = torch.nn.Module()
    memory = torch.zeros(6)
    shared.a, shared.b = torch.nn.Parameter(memory[:4]), torch.nn.Parameter(memory[2:])
    complex_one = torch.nn.Module()
    complex_one.a = torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    wrapped = make_net()
    opt = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    model = kith.DecentralizedDataParallel(wrapped, opt)
    found = [
        told(torch.nn.ReLU(), torch.optim.SGD(net.parameters(), lr=0.1)),
        told(holes),
        told(shared),
        told(complex_one),
        told(net, torch.optim.SGD(make_net().parameters(), lr=0.1)),
        told(net, "sgd"),
        told(wrapped, opt),
        told(net, torch.optim.LBFGS(net.parameters())),
    ]
    wrapped[0].weight.data = wrapped[0].weight.data.clone()
    loss_of(model, 0, 0).backward()
    found.append(message_of(kith.InputError, opt.step))
    found.append(message_of(kith.InputError, lambda: model.clip_grad_norm(0)))
    model.close()
    found.append(message_of(kith.Error, lambda: model.gather(1)))
    return found


def threads_of_a_model_that_is(refused):
    def body(_):
        net = make_net()
        before = len(os.listdir("/proc/self/task"))
        if refused:
            opt = torch.optim.LBFGS(net.parameters())
            message_of(kith.InputError, lambda: kith.DecentralizedDataParallel(net, opt))
        else:
            model = kith.DecentralizedDataParallel(net, torch.optim.SGD(net.parameters(), lr=0.1))
            model.close()
        return len(os.listdir("/proc/self/task")) - before

    return run_alone(body)


def optimizers(_):
    net = make_net()
    unwrapped = kith.optim.AdamW(net.parameters())
    several = [{"params": net[0].parameters(), "betas": (0.8, 0.9)}, {"params": net[2].parameters()}]
    cycled = kith.optim.AdamW(net.parameters())
    kith.DecentralizedDataParallel(net, cycled)
    cycled.param_groups[0]["betas"] = (0.5, 0.9)
    other = make_net()
    rates = kith.optim.SGD(other.parameters(), momentum=1.5)
    return [
        message_of(kith.InputError, unwrapped.step),
        message_of(kith.InputError, lambda: kith.optim.AdamW(several)),
        message_of(kith.InputError, cycled.step),
        message_of(kith.InputError, lambda: kith.DecentralizedDataParallel(other, rates)),
    ]


class Words(unittest.TestCase):
    def expect(self, told, *wanted):
        self.assertEqual(len(told), len(wanted))
        for found, parts in zip(told, wanted):
            for part in parts if isinstance(parts, tuple) else (parts,):
                self.assertIn(part, found)

    def test_options(self):
        self.expect(
            run_alone(options),
            ("'exq'", "did you mean 'exp'"),
            ("'awk'", "awc"),
            ("'dsgt'", "optimizer of one's own"),
            ("wire", "'bf17'", "bf16"),
            ("buffers: 'mixed'", "averaged, local"),
            ("non_finite: 'ignore'", "skip, use"),
            ("on_lost: 'shrug'", "fail, carry_on, reform"),
            ("shape", "the world has 1"),
            ("mix every", "0"),
            ("patience", "0"),
            ("bucket size", "0 bytes"),
        )

    def test_a_model_that_is_refused_leaves_no_engine_running(self):
        """It would run on when its world has ended, and crash."""
        self.assertLessEqual(threads_of_a_model_that_is(refused=True), threads_of_a_model_that_is(refused=False))

    def test_modules(self):
        self.expect(
            run_alone(modules),
            ("ReLU has no parameters"),
            ("parameter weight", "strides (8, 2)"),
            ("parameter b: shares memory with parameter a",),
            ("parameter a", "complex64"),
            ("group 0", "not the module's"),
            ("optimizer: a str"),
            ("another model already",),
            ("LBFGS", "evaluates the loss again"),
            ("parameter 0.weight: was moved",),
            ("clip_grad_norm: 0",),
            ("closed",),
        )

    def test_fused_optimizers(self):
        self.expect(
            run_alone(optimizers),
            ("not wrapped",),
            ("group 1", "betas"),
            ("betas (0.5, 0.9)", "cycle_momentum=False"),
            ("momentum", "1.5"),
        )


ENVIRONMENTS = {  # launcher: variables of a world of one; test_ddp.py has one of two
    "torchrun": {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29400",
    },
    "Open MPI": {
        "OMPI_COMM_WORLD_RANK": "0",
        "OMPI_COMM_WORLD_SIZE": "1",
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    },
    "kith": {"KITH_WORKER": "0", "KITH_WORKERS": "1"},
    "none": {},
}


class Worlds(unittest.TestCase):
    def in_environment(self, values, call):
        def body(world):
            world.close()
            set_environment(values)
            return call()

        return run_alone(body)

    def test_each_launcher_is_known(self):
        for launcher, values in ENVIRONMENTS.items():
            def look():
                with kith.init(device=DEVICE) as world:
                    assert kith.init() is world
                    refused = message_of(kith.InputError, lambda: kith.init(facts={"a": 1}))
                    return world.launcher, world.rank, world.size, world.local_rank, world.device.type, refused

            found = self.in_environment(values, look)
            self.assertEqual(found[:5], (launcher, 0, 1, 0, DEVICE.type))
            self.assertIn("there is a world already", found[5])

    def test_half_an_environment_is_refused(self):
        told = self.in_environment({"RANK": "0"}, lambda: message_of(kith.InputError, kith.init))
        self.assertIn("WORLD_SIZE", told)

    def test_a_device_that_is_not_here(self):
        told = self.in_environment({}, lambda: message_of(kith.InputError, lambda: kith.init(device="meta")))
        self.assertIn("device: 'meta'", told)

    def test_without_a_world(self):
        def call():
            net = make_net()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            return message_of(kith.InputError, lambda: kith.DecentralizedDataParallel(net, opt))

        self.assertIn("kith.init()", self.in_environment({}, call))


class Module(unittest.TestCase):
    def test_errors_are_pythons_too(self):
        self.assertTrue(issubclass(kith.InputError, ValueError))
        self.assertTrue(issubclass(kith.InputError, kith.Error))
        self.assertTrue(issubclass(kith.Error, RuntimeError))

    def test_knows_no_torch(self):
        """The compiled module loads by itself, and brings no library of torch's."""
        script = (
            "import importlib.util, sys\n"
            "spec = importlib.util.spec_from_file_location('_kith', sys.argv[1])\n"
            "module = importlib.util.module_from_spec(spec)\n"
            "spec.loader.exec_module(module)\n"
            "assert 'torch' not in sys.modules\n"
            "assert module.Options().topology == 'aer'\n"
            "assert not [l for l in open('/proc/self/maps') if 'libtorch' in l or 'libc10' in l]\n"
        )
        with tempfile.TemporaryDirectory(prefix="kith-test-") as folder:
            subprocess.run([sys.executable, "-c", script, kith._kith.__file__], check=True, cwd=folder)

    def test_help_helps(self):
        for thing in (kith, kith.init, kith.World, kith.DecentralizedDataParallel, kith.optim, *map(
            lambda name: getattr(kith.optim, name), kith.optim.__all__
        )):
            self.assertGreater(len((thing.__doc__ or "").split()), 20, thing)
        for name in dir(kith.DecentralizedDataParallel):
            own = name in vars(kith.DecentralizedDataParallel) and not name.startswith("_")
            if own and name not in ("forward", "world", "set_extra_state"):
                self.assertTrue(getattr(kith.DecentralizedDataParallel, name).__doc__, name)


if __name__ == "__main__":
    main()
