"""Where replicas may run: a limited number of places, and what it takes to give one another shape."""

from __future__ import annotations


class Places:
    """Equal places, each for one replica; None: as many as anybody wants.

    A place remembers the variant that had it last, as a GPU remembers how it was partitioned.
    """

    def __init__(self, number: int | None = None) -> None:
        """Raises ValueError."""
        if number is not None and number < 0:
            raise ValueError(f"the number of places must be at least 0, got {number}")
        self._free: list[str | None] | None = None if number is None else [None] * number

    def take(self, variant: str) -> bool | None:
        """Take a place, of the same shape where one is free; whether it has to be given that shape first.

        None: there is none.
        """
        if self._free is None:
            return False
        for shape in (variant, None):
            if shape in self._free:
                self._free.remove(shape)
                return False
        if not self._free:
            return None
        self._free.pop()
        return True

    def give_back(self, variant: str) -> None:
        """It is free again."""
        if self._free is not None:
            self._free.append(variant)
