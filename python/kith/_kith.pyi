"""What the compiled module has: kith/launch and kith/engine, without torch. Addresses are data_ptr()s, streams are handles."""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

__version__: str
cuda: bool  # built with it

class Error(RuntimeError):
    """The environment is at fault: a file, a socket, memory, a worker that did not come."""

class InputError(Error, ValueError):
    """Your input is at fault; the message names the value, the place and the remedy."""

class Bug(RuntimeError):
    """kith is at fault."""

class World:
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def local_rank(self) -> int: ...
    @property
    def machines(self) -> List[int]: ...
    @property
    def backend(self) -> str: ...
    def close(self) -> None: ...

def discover(environment: Mapping[str, str]) -> Dict[str, Any]: ...
def join(
    environment: Mapping[str, str], facts: Mapping[str, str], backend: str, gpu: Optional[int], patience: float
) -> World: ...
def topologies() -> List[str]: ...

class Options:
    topology: str
    nodes: str
    algorithm: str
    inside: str
    optimizer: str
    beta1: float
    beta2: float
    eps: float
    commit_every: int
    momentum: float
    dampening: float
    nesterov: bool
    wire: Optional[str]
    lr: float
    weight_decay: float
    name: str
    mix_every: int
    stagger: bool
    patience: float
    bucket_bytes: int
    same_start: bool
    topology_seed: int
    degree: int
    edge_probability: float
    centres: int
    topology_file: str
    @property
    def skips_non_finite(self) -> bool: ...
    @property
    def fails_on_lost(self) -> bool: ...
    @property
    def averages_buffers(self) -> bool: ...

class StepReport:
    """What a step did."""

    skipped: bool
    @property
    def step(self) -> int: ...
    @property
    def waited(self) -> float: ...
    @property
    def bytes_read(self) -> int: ...
    @property
    def bytes_published(self) -> int: ...
    @property
    def missing_weight(self) -> float: ...
    @property
    def late(self) -> List[int]: ...
    @property
    def lost(self) -> List[int]: ...
    @property
    def gradient_norm(self) -> Optional[float]: ...

Cut = List[List[Tuple[int, int]]]

class Engine:
    def __init__(
        self,
        world: World,
        options: Options,
        cut: Cut,
        parameters: Sequence[Tuple[str, int, int, str, List[int], List[int]]],
        gpu: Optional[int],
        stream: int,
    ) -> None: ...
    def start(self) -> None: ...
    def restore(self, step: int) -> None: ...
    def resume(self) -> None: ...
    def step(
        self,
        inputs: Sequence[Tuple[int, float, float]],
        gradient_scale: float,
        max_norm: Optional[float],
        skip_non_finite: bool,
        stream: int,
    ) -> StepReport: ...
    def gradient_ready(self, parameter: int, gradient: int, stream: int) -> None: ...
    def mean_gradients(self, gradients: Sequence[int], to: Sequence[int], stream: int) -> List[bool]: ...
    def gradient_norm(self, gradients: Sequence[int], stream: int) -> float: ...
    def average(self, to: Sequence[int], stream: int) -> None: ...
    def consensus_distance(self, stream: int) -> float: ...
    def gather(self, value: float) -> List[float]: ...
    def state(self, stream: int) -> List[Tuple[str, str, int]]: ...
    def copy_state_to(self, blocks: Sequence[Tuple[str, int]], stream: int) -> None: ...
    def copy_state_from(self, blocks: Sequence[Tuple[str, int]], stream: int) -> None: ...
    def close(self) -> None: ...
    @property
    def steps(self) -> int: ...
    @property
    def buckets(self) -> int: ...
    @property
    def cut(self) -> Cut: ...
    @property
    def memory(self) -> Dict[str, int]: ...
