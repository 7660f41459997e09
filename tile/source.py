"""Where the user's program stands: the line of a call, and the names that take its results.

Everything is read from the frame of the user's function, so that a builder call needs no
argument for it: locations are the file, line and column of the call, and a value is named after
the variable that it is assigned to.
"""

from __future__ import annotations

import dis
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache, wraps
from types import CodeType, FrameType
from typing import TYPE_CHECKING, NoReturn, ParamSpec, TypeVar

from polyc.dialects.common.diagnostic import Place, PolycError, of_verifier
from polyc.dialects.common.python_source import frame_outside, location_of, place_of_frame

if TYPE_CHECKING:
    from xdsl.dialects.builtin import LocationAttr

PACKAGE = __name__.rpartition(".")[0]

P = ParamSpec("P")
R = TypeVar("R")


def user_frame() -> FrameType | None:
    """The innermost frame outside this package."""
    return frame_outside(PACKAGE)


def here() -> LocationAttr:
    """The file, line and column of the call that the user's function is in."""
    return location_of(user_frame())


_PASSED_OVER = ("EXTENDED_ARG", "CACHE", "NOP", "COPY")
_STORES = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")


@lru_cache(maxsize=256)
def _stores(code: CodeType) -> tuple[list[int], dict[int, tuple[str, ...]]]:
    """The instructions' offsets, and the variables that a result is stored in at once."""
    found: dict[int, tuple[str, ...]] = {}
    listed = [i for i in dis.get_instructions(code) if i.opname not in _PASSED_OVER]
    for position, instruction in enumerate(listed[:-1]):
        wanted, at = 1, position + 1
        if listed[at].opname == "UNPACK_SEQUENCE":
            wanted, at = listed[at].arg or 0, at + 1
        names: list[str] = []
        while len(names) < wanted and at < len(listed):
            store = listed[at]
            if store.opname == "STORE_FAST_STORE_FAST":  # from Python 3.13 on
                names += store.argval
            elif store.opname == "STORE_FAST_LOAD_FAST":
                names.append(store.argval[0])
            elif store.opname in _STORES:
                names.append(store.argval)
            else:
                break
            at += 1
        if len(names) >= wanted:
            found[instruction.offset] = tuple(names[:wanted])
    return [i.offset for i in listed], found


def targets() -> tuple[str, ...]:
    """The variables that the user's call is assigned to: ``("a", "b")`` in ``a, b = f()``.

    Also those of ``with f() as (a, b)`` and of ``for a, b in f()``; none where the result goes
    elsewhere.
    """
    frame = user_frame()
    if frame is None:
        return ()
    offsets, stores = _stores(frame.f_code)
    # While a call runs, the frame may stand at a cache entry that follows the instruction.
    at = bisect_right(offsets, frame.f_lasti) - 1
    return stores.get(offsets[at], ()) if at >= 0 else ()


def target() -> str | None:
    """The one variable that the user's call is assigned to."""
    names = targets()
    return names[0] if len(names) == 1 else None


def place_here() -> Place | None:
    """The same place, for an error."""
    return place_of_frame(user_frame())


def refuse(kind: str, message: str, at: LocationAttr | Place | None = None) -> NoReturn:
    """Raise a PolycError at the user's line, or at ``at``."""
    raise PolycError(kind, message, place_here() if at is None else at)


_WRONG_ARGUMENTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
)
"""What an argument of a wrong kind runs into before a verifier sees it."""


def public(function: Callable[P, R]) -> Callable[P, R]:
    """A function of the user's: what a dialect refuses becomes a PolycError at the user's line."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except PolycError as error:
            error.located(place_here())
            raise
        except _WRONG_ARGUMENTS as error:
            word = function.__name__.strip("_")
            raise PolycError(
                "BadArgument", f"{word} is given what it does not take: {error}", place_here()
            ) from error
        except Exception as error:
            if (told := of_verifier(error, place_here())) is None:
                raise
            raise told from None

    return guarded
