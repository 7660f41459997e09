"""A kernel written by hand, tried: simulated, and compared with playback of the region."""

from __future__ import annotations

from polyc.dialects.common.diagnostic import PolycError
from polyc.passes.finish import finished
from polyc.rewriting.driver import verify
from polyc.tools.check import Expected, sizes_text
from polyc.tools.kernels.instance import Instance, of_pattern
from polyc.tools.kernels.trial_sizes import trial_sizes
from polyc.tools.play import Signature


def refused(instance: Instance) -> str | None:
    """Why a variant is not lowered at the sizes of its region, or None where it is.

    Raises PolycError where it is not lowered at open sizes either: the program is at fault.
    """
    try:
        verify(instance.module)
        finished(instance.module)
    except PolycError as error:
        finished(of_pattern(instance).module)
        return f"at the region's sizes it is refused, {error.kind}: {error.message}"
    return None


def tried(instance: Instance) -> list[str]:
    """The sizes at which a variant gave what its region does, as sentences name them.

    It runs in the simulator, which finds races too, on every kind of random inputs at the smallest
    sizes, and on uniform ones and some with NaN and infinities at the others.  Where the region is
    too large for that, its pattern is played in its place.

    Raises PolycError: ``WrongKernel`` at the program, with the sizes, the inputs and the element;
    ``NoTrial``; what its own lowering refuses.
    """
    from polyc.playback.gpu import simulate

    try:
        sizes = trial_sizes(instance)
    except PolycError:
        # A region of fixed sizes may be too large to play; its pattern computes the same.
        instance = of_pattern(instance)
        sizes = trial_sizes(instance)
    signature = Signature.of(instance.region)
    assert signature is not None, "a form of a region is from nowhere"
    module = finished(instance.module)
    for number, symbols in enumerate(sizes):
        draws = ("uniform", "special") if number else None
        for expected in Expected.of_each_draw(signature, symbols, draws=draws):
            result = simulate(module, expected.inputs, expected.symbols)
            try:
                result.check()
            except PolycError as error:
                raise _wrong(
                    instance, expected, f"{error.kind}: {error.message}", [error.format()]
                ) from None
            if (found := expected.difference(result.outputs)) is not None:
                position, mismatch = found
                text = f"output {expected.names[position]}, {mismatch}"
                raise _wrong(instance, expected, text)
    return [sizes_text(symbols) for symbols in sizes]


def _wrong(
    instance: Instance, expected: Expected, text: str, notes: list[str] | None = None
) -> PolycError:
    return PolycError(
        "WrongKernel",
        f"{instance.name} does not compute region @{instance.region.sym_name.data} at "
        f"{expected.where}: {text}; mend it, or what it says that it replaces",
        instance.registered.program.location,
        [n.split("\n")[0] for n in notes or ()],
    )
