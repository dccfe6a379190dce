"""Who trains together: the wrapper's part in workers that are gone, come and leave."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Callable, List, NamedTuple, Optional, Sequence

from kith import _newcomer
from kith._kith import Error
from kith._newcomer import Joined, News

if TYPE_CHECKING:
    from kith import _kith
    from kith._world import World


def weakly(thing: Any, call: Callable[[Any], Any]) -> Callable[[], Any]:
    """call(thing), for somebody whom `thing` owns: it does not keep it alive. None once it is gone."""
    there = weakref.ref(thing)

    def called() -> Any:
        alive = there()
        return None if alive is None else call(alive)

    return called


class Change(NamedTuple):
    """Of the members: who is there from a step on."""

    began: int
    members: List[int]


class Membership:
    """The members of a wrapped model, and how they become others."""

    steps: int
    _world: "World"
    _engine: "_kith.Engine"
    _base_name: str
    _builds: int
    _seen_members: List[int]
    _build: Callable[..., "_kith.Engine"]
    _require_free: Callable[[str], None]
    close: Callable[[], None]

    def _prepare_membership(self) -> None:
        self._changes: List[Change] = []
        self._position: Optional[Callable[[], Any]] = None
        self._joined: Optional[Joined] = None
        self._news = News(joins=self._world.newcomer)
        self._mixes_until = 0  # steps before this one bring no gradient

    @property
    def members(self) -> List[int]:
        """The workers that train together now, in rank order: all of ``kith.init()``'s until one is gone or comes."""
        return list(self._engine.members)

    @property
    def rank(self) -> int:
        """This worker's number among the members. ``world.rank`` while they are those of the start."""
        return self.members.index(self._world.rank)

    @property
    def size(self) -> int:
        """How many members there are. ``world.size`` while they are those of the start."""
        return len(self._engine.members)

    @property
    def joined(self) -> Optional[Joined]:
        """None, or what this worker came into as a newcomer: (step, view, position).

        It then began with a member's model, buffers, optimizer state and groups, and ``steps`` is where the others are.
        """
        return self._joined

    def give_position(self, position: Callable[[], Any]) -> None:
        """A newcomer finds in ``joined.position`` what `position()` returned on the member whose state it got.

        It is called between two steps, by a thread of kith's while this one waits in a step, and must not step, call
        collective functions or ask for the state of an optimizer of kith's. It may return whatever pickle takes: a place in the data, a scheduler's state_dict().
        """
        self._position = position

    def finish(self) -> None:
        """This worker leaves a job that goes on, and its model closes.

        It mixes on without gradients to where the others go on without it, and with "sgp" hands over its mass: nothing is
        lost, and nobody misses it. With ``on_lost="reform"``; else the others do.
        """
        self._require_free("finish()")
        self._world._open().tell(self._left_key(self._world.rank), str(self.steps))
        self._engine.finish()
        self.close()

    # ---- inside

    def _join(self) -> None:
        """Becomes a member of the running job, whose engine may have been built anew."""
        while True:
            built = self._builds = self._engines_built()
            try:
                self._engine = self._build([])
                break
            except Error:
                if self._engines_built() == built:
                    raise
        step, view, along = self._engine.joined
        self._joined = Joined(step, view, _newcomer.take_along(self, along))
        began = self._engine.view_began
        self._changes.append(Change(began, list(self._engine.members)))
        self._news.somebody_came(began)

    def _engines_built(self) -> int:
        return int(self._world._open().told(f"{self._base_name}/builds") or 0)

    def _left_key(self, worker: int) -> str:
        """Under which a worker that leaves says after how many steps."""
        return f"{self._base_name}/left/{worker}"

    @property
    def _only_mixes(self) -> bool:
        """The next step brings no gradient of this worker's."""
        return self._mixes_until > 0 and self.steps < self._mixes_until

    def _note_members(self) -> None:
        """Every change is noted at the latest with the first step that it holds for."""
        now = list(self._engine.members)
        if now != self._seen_members:
            if set(now) - set(self._seen_members):
                self._news.somebody_came(self._engine.view_began)
            self._seen_members = now
            self._changes.append(Change(self._engine.view_began, now))
