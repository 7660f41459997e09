"""The sizes that ``--set`` gives: names and values, checked before any work is done with them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.ir import Operation

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import MAX_SIZE, Assumption
from polyc.tools.check import operation, sizes_text, small_sizes

if TYPE_CHECKING:
    from polyc.dialects.common.signature import SignatureOp
    from polyc.dialects.common.sized_tensor import SizedTensorType


def given_sizes(settings: Sequence[str], at: Operation | None = None) -> dict[str, int]:
    """The sizes that ``--set NAME=VALUE`` gives.

    Raises PolycError of kind ``BadSize`` for text that is no size, and for a second one.
    """
    values: dict[str, int] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not name or not equals or not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
            raise PolycError(
                "BadSize", f"--set {setting} is not NAME=INTEGER; write --set M=512", at
            )
        if name in values:
            raise PolycError("BadSize", f"--set gives {name} twice, {values[name]} and {text}", at)
        values[name] = int(text)
        if values[name] < 0:
            raise PolycError(
                "BadSize", f"--set {setting}: a size is 0 or more, {name} is {text}", at
            )
    return values


def parse_sizes(settings: Sequence[str], program: SignatureOp) -> dict[str, int]:
    """The sizes that ``--set NAME=VALUE`` gives, in the order of the program's symbols.

    Raises PolycError: ``BadSize`` for text that is no size, ``UnknownSymbol``,
    ``MissingSize``, and ``AssumptionViolated`` with the fact that does not hold.
    """
    at = operation(program)
    name, symbols = program.sym_name.data, program.symbol_names
    values = given_sizes(settings, at)
    check_names(values, [program], at)
    missing = [symbol for symbol in symbols if symbol not in values]
    if missing:
        flags = " ".join(f"--set {symbol}=VALUE" for symbol in missing)
        plural = "s" if len(missing) > 1 else ""
        raise PolycError(
            "MissingSize",
            f"@{name} needs a value for the symbol{plural} {', '.join(missing)}; add {flags}",
            at,
        )
    check_facts(values, program)
    return {symbol: values[symbol] for symbol in symbols}


def check_names(
    values: Mapping[str, int], programs: Sequence[SignatureOp], at: Operation | None
) -> None:
    """Raises PolycError ``UnknownSymbol`` for a size that no program has."""
    known = {symbol: None for program in programs for symbol in program.symbol_names}
    names = ", ".join(f"@{program.sym_name.data}" for program in programs) or "the module"
    for name, value in values.items():
        if name not in known:
            raise PolycError(
                "UnknownSymbol",
                f"--set {name}={value}: {names} has no symbol {name!r}; it has "
                f"{', '.join(known) or 'none'}",
                at,
            )


def check_facts(values: Mapping[str, int], program: SignatureOp) -> None:
    """Raises PolycError ``AssumptionViolated`` for a fact that sizes break, where all are given."""
    for fact in program.facts:
        if _known(fact, values) and not fact.holds(values):
            given = ", ".join(f"{name} = {values[name]}" for name in fact.expr.symbols())
            raise PolycError(
                "AssumptionViolated",
                f"@{program.sym_name.data} assumes {fact}, which does not hold at {given}",
                operation(program),
            )


def _known(fact: Assumption, values: Mapping[str, int]) -> bool:
    return all(name in values for name in fact.expr.symbols())


def sizes_of(settings: Sequence[str], program: SignatureOp) -> dict[str, int]:
    """The sizes that ``--set`` gives a program, which can be worked with on this machine.

    Raises PolycError as ``parse_sizes`` and ``check_tensors`` do.
    """
    symbols = parse_sizes(settings, program)
    check_tensors(program, symbols)
    return symbols


def given_for(
    settings: Sequence[str], programs: Sequence[SignatureOp], at: Operation
) -> dict[str, int]:
    """Some sizes of the programs of a module, the others being small.

    Raises PolycError as ``sizes_of`` does, and ``NoSizes`` where no small ones fit to them.
    """
    values = given_sizes(settings, at)
    check_names(values, programs, at)
    for program in programs:
        check_facts(values, program)
        check_tensors(program, small_sizes(program, values))
    return values


def check_extents(program: SignatureOp, symbols: Mapping[str, int]) -> None:
    """Raises PolycError ``BadSize`` for a size that is negative or over 32 bits."""
    at = operation(program)
    for tensor in (*program.inputs, *program.outputs):
        for size in tensor.type.dims:
            if not 0 <= (value := size.evaluate(symbols)) <= MAX_SIZE:
                given = ", ".join(f"{name} = {symbols[name]}" for name in size.symbols())
                raise PolycError(
                    "BadSize",
                    f"{tensor.name} has a size of {size}, which is {value} at {given}; sizes "
                    f"are 0 to {MAX_SIZE}, as kernels index with 32 bits",
                    at,
                )
    for name, value in symbols.items():
        if value > MAX_SIZE:
            raise PolycError(
                "BadSize",
                f"--set {name}={value}: sizes are 0 to {MAX_SIZE}, as kernels index with 32 bits",
                at,
            )


def check_tensors(program: SignatureOp, symbols: Mapping[str, int]) -> None:
    """Raises PolycError: ``BadSize`` as ``check_extents``, ``OutOfMemory`` when playback would not
    fit the host's memory.

    The memory is an estimate.  Of a graph, every input is held as it is stored and in f32, every
    value in f32 at each of the layers, and the comparison makes copies in f64.  Of another program,
    the tensors are held as they are stored, in f32, and in the copy that is compared.
    """
    check_extents(program, symbols)
    at = operation(program)
    needed = _bytes_held(program, symbols)
    if (there := free_memory()) is not None and needed > there:
        raise PolycError(
            "OutOfMemory",
            f"@{program.sym_name.data} at {sizes_text(symbols)} takes about {needed / 1e9:.1f} GB "
            f"to play back, and {there / 1e9:.1f} GB are free; use smaller sizes",
            at,
        )


def _bytes_held(program: SignatureOp, symbols: Mapping[str, int]) -> int:
    if operation(program) is not program:
        tensors = [t.type for t in (*program.inputs, *program.outputs)]
        return sum(20 * prod(d.evaluate(symbols) for d in t.dims) for t in tensors)
    block = program.body.block
    inputs = [cast("SizedTensorType", arg.type) for arg in block.args]
    values = [cast("SizedTensorType", result.type) for op in block.ops for result in op.results]
    held = [(4, t) for t in inputs] + [(5, t) for t in values]
    return sum(4 * n * prod(d.evaluate(symbols) for d in t.dims) for n, t in held)


def free_memory() -> int | None:
    """Bytes that the host can still give without swapping, or None where it does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None
