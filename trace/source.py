"""The user's line of a call that builds a graph, and refusals that point there."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import NoReturn, ParamSpec, TypeVar

from xdsl.dialects.builtin import LocationAttr
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.diagnostic import PolycError, from_text
from polyc.dialects.common.python_source import frame_outside, location_of

PACKAGE = __name__.rpartition(".")[0]

P = ParamSpec("P")
R = TypeVar("R")


def here() -> LocationAttr:
    """The file, line and column of the call that the user's function is in."""
    return location_of(frame_outside(PACKAGE))


def refuse(kind: str, message: str, at: LocationAttr | None = None) -> NoReturn:
    """Raise a PolycError at the user's line, or at ``at``."""
    raise PolycError(kind, message, here() if at is None else at)


_WRONG_ARGUMENTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What an argument of a wrong kind runs into before a verifier sees it."""


def public(function: Callable[P, R]) -> Callable[P, R]:
    """A function of the user's: what a dialect refuses becomes a PolycError at the user's line."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except PolycError as error:
            error.located(here())
            raise
        except VerifyException as error:
            raise from_text(str(error), here()) from None
        except _WRONG_ARGUMENTS as error:
            word = function.__name__.strip("_")
            raise PolycError(
                "BadArgument", f"{word} is given what it does not take: {error}", here()
            ) from error

    return guarded
