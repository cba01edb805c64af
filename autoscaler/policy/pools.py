"""Free devices, by kind, pool of nodes and node: a replica's devices must lie together on one node.

Counts only. Which device of a node a replica gets is decided by who starts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autoscaler.domain.cluster import Device
from autoscaler.domain.service import DeviceRequest

_Place = tuple[str, str]  # kind, node
_NAMED = 3  # broken devices that a decision names


@dataclass(slots=True)
class _Stock:
    """One node's devices of one kind: ``free`` ones, and those that pods of a given priority hold and may lose."""

    place: _Place
    pool: str
    free: int = 0
    held: tuple[tuple[int, int], ...] = ()

    def reachable(self, priority: int) -> int:
        return self.free + sum(count for holder, count in self.held if holder < priority)


class Pools:
    """What is free, and who takes it. Choices depend on the order of calls alone."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self._stocks: dict[_Place, _Stock] = {}
        self._broken: dict[str, list[Device]] = {}
        for device in devices:
            if not device.healthy:
                self._broken.setdefault(device.kind, []).append(device)
                continue
            place = (device.kind, device.node)
            stock = self._stocks.setdefault(place, _Stock(place, device.pool))
            if device.holder_priority is None:
                stock.free += device.count
            else:
                stock.held = tuple(sorted((*stock.held, (device.holder_priority, device.count))))
        # The best fit is looked up by the number of free devices; few numbers occur, however many nodes there are.
        self._by_free: dict[tuple[str, str], dict[int, dict[_Place, None]]] = {}
        self._reserves: dict[tuple[str, str], list[_Stock]] = {}
        for stock in self._stocks.values():
            self._sorted_in(stock)
            if stock.held:
                self._reserves.setdefault((stock.place[0], stock.pool), []).append(stock)
        self._pools: dict[str, list[str]] = {}
        for kind, pool in self._by_free:
            self._pools.setdefault(kind, []).append(pool)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of which any healthy device exists, free or not."""
        return frozenset(self._pools)

    def broken(self, kinds: Iterable[str]) -> str:
        """Devices of these kinds that are no capacity, for a person; "" where all are healthy."""
        found = [device for kind in kinds for device in self._broken.get(kind, ())]
        if not found:
            return ""
        named = ", ".join(
            [f"{device.id} ({device.detail})" if device.detail else device.id for device in found[:_NAMED]]
        )
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        return f"{sum([device.count for device in found])} broken: {named}{more}"

    def fits(self, request: DeviceRequest, *, pools: Sequence[str] | None, priority: int) -> bool:
        """True if ``take`` would succeed."""
        nodes = self.take(request, pools=pools, priority=priority)
        if nodes is not None:
            self.give_back(request, nodes)
        return nodes is not None

    def take(
        self, request: DeviceRequest, *, pools: Sequence[str] | None, priority: int, near: Sequence[str] = ()
    ) -> tuple[str, ...] | None:
        """Take one replica's devices and name its nodes; None (and nothing taken) where they don't fit.

        ``near``: the nodes to try first, one for each of its pods. Else the node that is left with the fewest free
        devices; one whose holder would have to go only where no other has enough.
        """
        nodes: list[str] = []
        for index in range(request.pods):
            wanted = near[index] if index < len(near) else None
            stock = self._at(request, wanted) or self._best(request, pools, priority)
            if stock is None:
                self.give_back(request, nodes)
                return None
            self._set_free(stock, stock.free - request.count)
            nodes.append(stock.place[1])
        return tuple(nodes)

    def give_back(self, request: DeviceRequest, nodes: Sequence[str]) -> None:
        """Undo ``take``."""
        for node in nodes:
            stock = self._stocks[request.kind, node]
            self._set_free(stock, stock.free + request.count)

    def _at(self, request: DeviceRequest, node: str | None) -> _Stock | None:
        stock = self._stocks.get((request.kind, node)) if node is not None else None
        return stock if stock is not None and stock.free >= request.count else None

    def _best(self, request: DeviceRequest, pools: Sequence[str] | None, priority: int) -> _Stock | None:
        among = self._pools.get(request.kind, ()) if pools is None else pools
        best: int | None = None
        place: _Place | None = None
        for pool in among:
            for free, places in self._by_free.get((request.kind, pool), {}).items():
                if free >= request.count and places and (best is None or free < best):
                    best, place = free, next(iter(places))
        if place is not None:
            return self._stocks[place]
        for pool in among:
            for stock in self._reserves.get((request.kind, pool), ()):
                if stock.reachable(priority) >= request.count:
                    return stock
        return None

    def _set_free(self, stock: _Stock, free: int) -> None:
        key = (stock.place[0], stock.pool)
        self._by_free[key][stock.free].pop(stock.place, None)
        stock.free = free
        self._sorted_in(stock)

    def _sorted_in(self, stock: _Stock) -> None:
        by_free = self._by_free.setdefault((stock.place[0], stock.pool), {})
        by_free.setdefault(stock.free, {})[stock.place] = None
