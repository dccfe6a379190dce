"""Workers for tests: processes of one machine that meet in a folder and talk over shared memory.

They are forked from a process that has imported torch and neither runs backward nor uses a GPU, so a world of four starts in a fraction of a second.
KITH_TEST_DEVICE=cuda runs everything on a GPU.
"""

import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
import unittest

import torch

import kith

if hasattr(torch, "compile"):
    import torch._dynamo  # else every worker imports it by itself at its first step, which takes seconds

DEVICE = torch.device(os.environ.get("KITH_TEST_DEVICE", "cpu"))
# Programs that tests start find the same package, wherever they run.
os.environ["PYTHONPATH"] = os.path.dirname(os.path.dirname(os.path.abspath(kith.__file__)))
torch.set_num_threads(1)
LIMIT = 120.0  # seconds for a group of workers

_fork = multiprocessing.get_context("fork")
_LAUNCHERS = ("KITH_", "OMPI_", "PMIX_", "SLURM_", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_")


class Crash(Exception):
    """A worker raised what nobody expected."""


def set_environment(values):
    """Exactly these variables of launchers."""
    for name in list(os.environ):
        if name.startswith(_LAUNCHERS) and name != "KITH_TEST_DEVICE":
            del os.environ[name]
    os.environ.update(values)


def environment_of(worker, workers, store):
    return {
        "KITH_WORKER": str(worker),
        "KITH_WORKERS": str(workers),
        "KITH_STORE": str(store),
        "KITH_LOCAL_RANK": str(worker % workers),
        "KITH_LOCAL_WORKERS": str(workers),
    }


def _main(body, worker, workers, folder, arguments):
    status = 0
    try:
        environment = environment_of(worker, workers, os.path.join(folder, "store"))
        if worker >= workers:
            environment["KITH_NEWCOMER"] = "1"
        set_environment(environment)
        with kith.init(device=DEVICE) as world:
            result = body(world, *arguments)
        torch.save(result, os.path.join(folder, f"result{worker}"))
    except BaseException:
        with open(os.path.join(folder, f"failure{worker}"), "w") as file:
            file.write(traceback.format_exc())
        status = 1
    os._exit(status)


def start_workers(workers, folder, body, arguments=()):
    processes = [_fork.Process(target=_main, args=(body, w, workers, folder, arguments)) for w in range(workers)]
    for process in processes:
        process.start()
    return processes


def start_newcomer(worker, workers, folder, body, arguments=()):
    """Worker number `worker` of a job that began with `workers`, which may run already."""
    process = _fork.Process(target=_main, args=(body, worker, workers, folder, arguments))
    process.start()
    return process


def run_with_newcomer(workers, ready, body, *arguments):
    """As run_workers(), but one more comes when the event `ready` is set: the last result."""
    with tempfile.TemporaryDirectory(prefix="kith-test-") as folder:
        processes = start_workers(workers, folder, body, arguments)
        try:
            if ready.wait(LIMIT / 2):
                processes.append(start_newcomer(workers, workers, folder, body, arguments))
                processes[-1].join(LIMIT)
        finally:
            failed = len(processes) > workers and processes[-1].exitcode != 0
            codes = finish_workers(processes, limit=5.0 if failed else LIMIT)  # the others may wait for it
        return results_of(folder, codes)


def results_of(folder, codes):
    """By worker; Crash where one failed."""
    workers = len(codes)
    for worker in range(workers):
        failure = os.path.join(folder, f"failure{worker}")
        if os.path.exists(failure):
            with open(failure) as file:
                raise Crash(f"worker {worker} of {workers}:\n{file.read()}")
    for worker, code in enumerate(codes):
        if code != 0:
            raise Crash(f"worker {worker} of {workers} ended with {code}")
    return [load_result(folder, w) for w in range(workers)]


def finish_workers(processes, limit=LIMIT):
    """Exit codes. Kills whoever is still there."""
    deadline = time.monotonic() + limit
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()
    return [process.exitcode for process in processes]


def load_result(folder, worker):
    """On the CPU: the process that forks uses no GPU."""
    return torch.load(os.path.join(folder, f"result{worker}"), map_location="cpu")


def run_workers(workers, body, *arguments):
    """body(world, *arguments) in every worker of a world; the results by rank."""
    with tempfile.TemporaryDirectory(prefix="kith-test-") as folder:
        return results_of(folder, finish_workers(start_workers(workers, folder, body, arguments)))


def run_alone(body, *arguments):
    """The same for a world of one."""
    return run_workers(1, body, *arguments)[0]


def make_net(dtype=torch.float64, seed=1):
    """A small network, the same everywhere."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    return net.to(dtype=dtype, device=DEVICE)


def batch(rank, step, dtype=torch.float64, size=5):
    """Worker `rank`'s data of a step."""
    generator = torch.Generator().manual_seed(1000 * rank + step)
    x = torch.randn(size, 3, generator=generator, dtype=torch.float64)
    y = torch.stack([x.prod(1), (x * x).sum(1)], 1) + rank
    return x.to(dtype=dtype, device=DEVICE), y.to(dtype=dtype, device=DEVICE)


def loss_of(model, rank, step, dtype=torch.float64):
    x, y = batch(rank, step, dtype)
    return torch.nn.functional.mse_loss(model(x).double(), y.double())  # there is none for 16 bits on CPUs


def vector(net):
    """The parameters as one vector."""
    return torch.cat([p.detach().reshape(-1).to(device="cpu", dtype=torch.float64) for p in net.parameters()])


def set_vector(net, values):
    first = 0
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(values[first : first + p.numel()].reshape(p.shape))
            first += p.numel()


def gradient_vector(net):
    return torch.cat([p.grad.reshape(-1).to(device="cpu", dtype=torch.float64) for p in net.parameters()])


def groups(*parts):
    """Groups of four workers that average: their mixing matrix."""
    w = torch.zeros(4, 4, dtype=torch.float64)
    for part in parts:
        for i in part:
            for j in part:
                w[i, j] = 1.0 / len(part)
    return w


MIXING = {  # topology -> (nodes, W_t)
    "complete": ("4", lambda t: groups((0, 1, 2, 3))),
    "exp": ("4", lambda t: groups((0, 1), (2, 3)) if t % 2 == 0 else groups((0, 2), (1, 3))),
    "aer": ("2x2", lambda t: groups((0, 1), (2, 3)) if t % 2 == 0 else groups((0, 1, 2, 3))),
}


def message_of(exception, call):
    """The words of the exception that call() raises."""
    try:
        call()
    except exception as error:
        return str(error)
    raise AssertionError(f"no {exception.__name__}")


def interrupt_self():
    os.kill(os.getpid(), signal.SIGINT)


def main():
    unittest.main(module=sys.modules["__main__"], verbosity=2)
