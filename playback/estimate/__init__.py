"""Arrays that know how far a right computation of them may be off (S0.6)."""

from polyc.playback.estimate import curves, elements, integers, movements, sums
from polyc.playback.estimate.array import (
    FACTOR,
    Estimate,
    as_estimate,
    products_of,
    rounded,
    rounding_allowed,
    rounding_freely,
    unsure_beyond,
    unsure_where,
)
from polyc.playback.estimate.curves import atan2, curve, erfc
from polyc.playback.estimate.elements import erf
from polyc.playback.estimate.integers import of_integers, to_integers
from polyc.playback.estimate.scans import scanned, start_at
from polyc.playback.estimate.stored import may_be_stored
from polyc.playback.estimate.sums import accumulated, scattered

__all__ = [
    "FACTOR",
    "Estimate",
    "accumulated",
    "as_estimate",
    "atan2",
    "curve",
    "curves",
    "elements",
    "erf",
    "erfc",
    "integers",
    "may_be_stored",
    "movements",
    "of_integers",
    "products_of",
    "rounded",
    "rounding_allowed",
    "rounding_freely",
    "scanned",
    "scattered",
    "start_at",
    "sums",
    "to_integers",
    "unsure_beyond",
    "unsure_where",
]
