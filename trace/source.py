"""The user's line of a call that builds a graph, and refusals that point there."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, NoReturn, ParamSpec, TypeVar

from polyc.dialects.common.diagnostic import Place, PolycError, of_verifier
from polyc.dialects.common.python_source import frame_outside, location_of, place_of_frame

if TYPE_CHECKING:
    from xdsl.dialects.builtin import LocationAttr

PACKAGE = __name__.rpartition(".")[0]

P = ParamSpec("P")
R = TypeVar("R")


def here() -> LocationAttr:
    """The file, line and column of the call that the user's function is in."""
    return location_of(frame_outside(PACKAGE))


def place_here() -> Place | None:
    """The same place, for an error."""
    return place_of_frame(frame_outside(PACKAGE))


def refuse(kind: str, message: str, at: LocationAttr | Place | None = None) -> NoReturn:
    """Raise a PolycError at the user's line, or at ``at``."""
    raise PolycError(kind, message, place_here() if at is None else at)


_WRONG_ARGUMENTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
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
