"""What a ``Program`` is made from: a ``gpu.module``, or an entry of the disk cache."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from polyc.runtime.code import Code
from polyc.runtime.described import Described, Launch

if TYPE_CHECKING:
    from polyc.dialects.gpu.module import ModuleOp


class Origin(ABC):
    """A program's description and code, and the module that they are of.

    Any number of threads may ask it.
    """

    described: Described
    code: Code

    @abstractmethod
    def module(self) -> ModuleOp:
        """The ``gpu.module``, which is not to be changed; made where it is not there yet."""

    @abstractmethod
    def launches(self, number: int) -> Sequence[Launch]:
        """The launches of a variant, lowered to the hardware level where it is not yet.

        Raises PolycError as the passes do.
        """
