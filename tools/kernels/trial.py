"""A kernel written by hand, tried: simulated, and compared with playback of the region."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.families.remembered import Remembered
from polyc.passes.finish import finished
from polyc.rewriting.driver import verify
from polyc.rewriting.structure import structure
from polyc.tools.check import Expected, sizes_text
from polyc.tools.kernels.instance import Instance, of_pattern, without_large_sizes
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
    too large for that, its pattern is played in its place; where a variant asks for sizes that are
    too large, it is tried at smaller ones: there it may be wrong, but it is not taken then.

    Raises PolycError: ``WrongKernel`` at the program, with the sizes, the inputs and the element;
    ``NoTrial``; what its own lowering refuses.
    """
    try:
        return _played(instance, trial_sizes(instance))
    except PolycError as error:
        if error.kind != "NoTrial":
            raise
    alone = of_pattern(instance)
    try:
        return _played(alone, trial_sizes(alone))
    except PolycError as error:
        small = without_large_sizes(alone)
        if error.kind != "NoTrial" or small is None:
            raise
        none = error
    try:
        return _played(small, trial_sizes(small))
    except PolycError as error:
        none.notes = (f"at sizes that it does not ask for: {error.message}",)
        raise none from None


def _played(instance: Instance, sizes: Sequence[Mapping[str, int]]) -> list[str]:
    """The same at given sizes; raises PolycError ``WrongKernel``.

    What was right is not played again in a process, as where a program is compiled for other sizes.
    """
    module = finished(instance.module)
    at = tuple(tuple(symbols.items()) for symbols in sizes)
    key = structure(module), structure(instance.region), at
    _RIGHT.of(key, lambda: _play(instance, module, sizes))
    return [sizes_text(symbols) for symbols in sizes]


_RIGHT = Remembered[None]()


def _play(instance: Instance, module: GpuModuleOp, sizes: Sequence[Mapping[str, int]]) -> None:
    """Raise PolycError ``WrongKernel`` where the lowered ``module`` of a variant is wrong."""
    from polyc.playback.gpu import simulate

    signature = Signature.of(instance.region)
    assert signature is not None, "a form of a region is from nowhere"
    for number, symbols in enumerate(sizes):
        draws = ("uniform", "special") if number else None
        for expected in Expected.of_each_draw(signature, symbols, draws=draws):
            result = simulate(module, expected.inputs, expected.symbols)
            try:
                result.check()
            except PolycError as error:
                text = f"{error.kind}: {error.message}"
                raise _wrong(instance, expected, text, error) from None
            if (found := expected.difference(result.outputs)) is not None:
                position, mismatch = found
                text = f"output {expected.names[position]}, {mismatch}"
                raise _wrong(instance, expected, text)


def _wrong(
    instance: Instance, expected: Expected, text: str, finding: PolycError | None = None
) -> PolycError:
    return PolycError(
        "WrongKernel",
        f"{instance.name} does not compute region @{instance.region.sym_name.data} at "
        f"{expected.where}: {text}; mend it, or what it says that it replaces",
        instance.registered.program.location,
        () if finding is None else finding.format().split("\n")[:1],
    )
