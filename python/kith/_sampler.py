"""Data for the workers that are there."""

from __future__ import annotations

import math
from typing import Generator, Iterator, List, NamedTuple, Optional, Sequence, Sized, Union

import torch

from kith._kith import InputError
from kith._membership import weakly
from kith._parallel import DecentralizedDataParallel


class _Dealing(NamedTuple):
    """Members that draw from the same samples, one batch each by rank, again and again."""

    first: int  # batch of the epoch
    members: List[int]
    places: torch.Tensor  # in the order of the epoch

    def numbers(self) -> List[int]:
        """For a newcomer: places as runs of places that follow each other."""
        places = self.places
        breaks = (torch.nonzero(places[1:] != places[:-1] + 1).flatten() + 1).tolist() if len(places) else []
        begins = [0, *breaks] if len(places) else []
        runs = [(int(places[a]), b - a) for a, b in zip(begins, [*breaks, len(places)])]
        return [self.first, len(self.members), *self.members, len(runs), *(n for run in runs for n in run)]


def _dealing_of(numbers: Iterator[int]) -> _Dealing:
    """What numbers() gave."""
    first, members = next(numbers), next(numbers)
    ids = [next(numbers) for _ in range(members)]
    runs = [(next(numbers), next(numbers)) for _ in range(next(numbers))]
    places = [torch.arange(begin, begin + count) for begin, count in runs]
    return _Dealing(first, ids, torch.cat([torch.empty(0, dtype=torch.int64), *places]))


class Sampler(torch.utils.data.Sampler):
    """Deals a data set out to a model's workers, batch by batch, and deals anew when one of them is gone or has come.

    ::

        sampler = kith.Sampler(data, model, batch_size=32)
        loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)
        while sampler.epoch < 10:
            for x, y in loader:
                ...
                opt.step()

    In an epoch every worker gets the same number of batches, no sample goes to two of them, and the order is new. When a
    worker is lost (``on_lost="reform"``), those who are left share what is left of the epoch from the step after on. What
    the lost one had been dealt, and what is in nobody's model because it was not heard of in time, comes first, again.
    Samples that do not fill a batch of all workers are left out at the end of the epoch.

    A newcomer takes part from its second step on, in the epoch where the others are: ``epoch`` says which, so count epochs
    by it. Until then it draws a batch of others, from which it does not learn: its first step only averages. A loader that
    draws ahead makes that as many more steps. A worker that left by ``model.finish()`` leaves to the others what it had
    not used.

    Every worker makes one with the same arguments and runs the same loop: the workers agree without a word, but for two
    numbers per lost worker, which they exchange when the next batch is drawn. A loader may draw ahead
    (``num_workers=2``); what it has drawn already stays as it was dealt.

    Args:
        data: the data set, or its length.
        model: the wrapped model whose workers share the data.
        batch_size: samples per worker and batch.
        shuffle: a new order in every epoch; else the data set's own.
        seed: of the orders.
        batches_per_step: how many batches a step uses (gradient accumulation).

    Attributes:
        epoch: of the next pass, from 0; every pass counts it up. Assign to go on with another.

    Raises:
        InputError: the data does not fill one batch of all workers, or a number below 1.
    """

    epoch: int

    def __init__(
        self,
        data: Union[Sized, int],
        model: DecentralizedDataParallel,
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        batches_per_step: int = 1,
    ) -> None:
        # torch 1.13's wants an argument, 2.x's warns of it; neither does anything.
        self._samples = data if isinstance(data, int) else len(data)
        for name, value in (("batch_size", batch_size), ("batches_per_step", batches_per_step)):
            if value < 1:
                raise InputError(f"{name}: {value} (at least 1)")
        if not isinstance(model, DecentralizedDataParallel):
            raise InputError(f"model: a {type(model).__name__} (give the kith.DecentralizedDataParallel)")
        self._model = model
        self._batch = batch_size
        self._shuffle = shuffle
        self._seed = seed
        self._batches_per_step = batches_per_step
        self._require_a_batch(len(model.members))
        self.epoch = 0
        self._changes = len(model._changes)  # of the members, that the data has followed
        self._drawn = 0  # batches of the epoch
        self._begun = -1  # steps done when it began
        self._dealings: List[_Dealing] = []
        self._others_begin: Optional[int] = None  # in a newcomer: the next epoch, after that many steps
        self._place = model._news.add(weakly(self, Sampler._numbers))
        self._hears = model._news.awaited  # of the others' epoch

    def __len__(self) -> int:
        """Batches of the epoch that is under way, as far as is known; of a whole one where none is."""
        if not self._dealings:
            return self._samples // (len(self._model.members) * self._batch)
        last = self._dealings[-1]
        return last.first + len(last.places) // (len(last.members) * self._batch)

    def __iter__(self) -> Iterator[List[int]]:
        if not self._hears:
            self._begin()
        else:
            borrowed = yield from self._before_the_news()
            if not self._take_up(in_a_pass=borrowed > 0):
                return
        order = self._order()
        while True:
            self._follow()
            dealing = self._dealings[-1]
            if self._end(dealing, self._drawn + 1) > len(dealing.places):
                break
            mine = self._places(dealing, self._drawn, self._model.world.rank)
            self._drawn += 1
            yield order[mine].tolist()
        self._dealings = []

    # ---- inside

    def _require_a_batch(self, workers: int) -> None:
        if self._samples < workers * self._batch:
            raise InputError(
                f"{self._samples} samples do not fill one batch of {self._batch} on each of {workers} workers "
                "(batch_size: a smaller batch, fewer workers, or more data)"
            )

    def _begin(self) -> None:
        """The next epoch."""
        steps = self._model.steps
        self.epoch += 1
        self._begun = steps if self._others_begin is None else min(steps, self._others_begin)
        self._drawn = (steps - self._begun) * self._batches_per_step
        self._others_begin = None
        self._changes = len(self._model._changes)
        self._dealings = [_Dealing(0, self._model.members, torch.arange(self._samples))]

    def _order(self) -> torch.Tensor:
        """Of the epoch under way."""
        if not self._shuffle:
            return torch.arange(self._samples)
        generator = torch.Generator().manual_seed((self._seed * 1_000_003 + self.epoch - 1) % 2**63)
        return torch.randperm(self._samples, generator=generator)

    def _end(self, dealing: _Dealing, batch: int) -> int:
        """Where, among the dealing's places, batch `batch` of all its members begins."""
        return (batch - dealing.first) * len(dealing.members) * self._batch

    def _places(self, dealing: _Dealing, batch: int, worker: int) -> torch.Tensor:
        first = self._end(dealing, batch) + dealing.members.index(worker) * self._batch
        return dealing.places[first : first + self._batch]

    def _follow(self) -> None:
        """Deals anew where the members changed and everybody knows: in the steps after the one that a view began with.

        The workers run the same loop, so this is the same batch on all of them.
        """
        model = self._model
        model._note_members()
        known = model._changes[self._changes :]
        due = [change for change in known if change.began < model.steps]
        if not due:
            return
        self._changes += len(due)
        gone = sorted(set(self._dealings[-1].members) - set(due[-1].members))
        again = [torch.empty(0, dtype=torch.int64)]
        for worker in gone:
            again += self._unheard(worker, self._heard(worker, due[-1].began))
        dealing = self._dealings[-1]
        rest = dealing.places[self._end(dealing, self._drawn) :]
        places = torch.cat([torch.cat(again).sort().values, rest])
        self._dealings.append(_Dealing(self._drawn, due[-1].members, places))

    def _heard(self, worker: int, began: int) -> int:
        """Steps of a worker that is gone which are in a model of those who are left. Collective."""
        left = self._model.world._open().told(self._model._left_key(worker))
        if left is not None:
            return int(left)
        if self._model._options.algorithm == "allreduce":
            return began
        told = self._model.gather(self._model._engine.heard(worker))
        return int(max(steps for steps in told if not math.isnan(steps)))

    def _unheard(self, worker: int, steps: int) -> Sequence[torch.Tensor]:
        """What it was dealt in this epoch, from that step on."""
        first = max(0, steps - self._begun) * self._batches_per_step
        unheard = []
        ends = [dealing.first for dealing in self._dealings[1:]] + [self._drawn]
        for dealing, end in zip(self._dealings, ends):
            if worker not in dealing.members:
                continue
            for batch in range(max(first, dealing.first), end):
                unheard.append(self._places(dealing, batch, worker))
        return unheard

    # ---- newcomers

    def _numbers(self) -> List[int]:
        """What a newcomer must know to go on as this one does."""
        mine = [self._samples, self._batch, self._batches_per_step, self.epoch, self._begun, self._drawn]
        return mine + [len(self._dealings)] + [n for dealing in self._dealings for n in dealing.numbers()]

    def _before_the_news(self) -> Generator[List[int], None, int]:
        """Batches of others, and how many they were."""
        model, borrowed = self._model, 0
        began = model.steps
        while model._news.awaited:
            borrowed += 1
            model._mixes_until = began + math.ceil(borrowed / self._batches_per_step)
            yield list(range(self._batch))
        return borrowed

    def _take_up(self, in_a_pass: bool) -> bool:
        """Goes on from where the others are. False: they are between two epochs, and the pass that was begun here ends."""
        self._hears = False
        model = self._model
        told = model._news.of(self._place)
        if told is None:
            raise InputError(
                f"worker {model.world.rank}: the members of the job had no sampler like this one when it came "
                "(make the same samplers in the same order on all workers)"
            )
        samples, batch, batches_per_step, self.epoch, self._begun, self._drawn, dealings, *rest = told
        if (samples, batch, batches_per_step) != (self._samples, self._batch, self._batches_per_step):
            raise InputError(
                f"worker {model.world.rank}: {self._samples} samples in batches of {self._batch}, {self._batches_per_step} a "
                f"step; the job deals {samples} in batches of {batch}, {batches_per_step} a step (start it with the job's data)"
            )
        numbers = iter(rest)
        self._dealings = [_dealing_of(numbers) for _ in range(dealings)]
        self._changes = 0
        if self._dealings and model.steps != model._news.heard_after:
            raise InputError(
                f"worker {model.world.rank}: draws its first batch {model.steps - model._news.heard_after} steps after the "
                "others told where they are (a newcomer draws from the sampler for its first step)"
            )
        if self._dealings:
            return True
        if not in_a_pass:
            self._begin()
            return True
        over = self._begun + math.ceil(self._drawn / batches_per_step)
        self._others_begin = over if self._begun >= 0 and over >= model.steps else None
        return False
