"""``polyc run`` on a ``gpu.module``: its tiles played back, its threads simulated or on a GPU.

What the tiles mean is the reference for what the lowered kernel does; text that is already at
the hardware level is compared with the simulator.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from polyc.dialects.common.diagnostic import PolycError
from polyc.tools.check import sizes_text
from polyc.tools.commands.inputs import KINDS
from polyc.tools.pipeline import Compilation
from polyc.tools.play import Signature, estimated
from polyc.tools.sizes import sizes_of
from polyc.tools.steps import Steps

if TYPE_CHECKING:
    from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
    from polyc.playback.estimate import Estimate
    from polyc.runtime.driver import Device

Arrays = Sequence[Any]
Wanted = Sequence["Estimate"]


def run(job: Compilation, args: argparse.Namespace, gpu: Device | None, steps: Steps) -> int:
    """The command for a file with a ``gpu.module``; returns the exit code.

    Raises PolycError of kind ``Disagreement`` with the output and its first element that
    differs, what the simulator finds, and what any step refuses.
    """
    from polyc.passes.finish import finish, is_finished
    from polyc.playback.gpu.simulate import gpu_module_of
    from polyc.playback.reference import make_inputs
    from polyc.runtime.program import Program

    tiles = gpu_module_of(job.module, args.graph)
    if args.arch is not None and args.arch != tiles.arch.data:
        raise PolycError(
            "ArchMismatch", f"the text is for {tiles.arch.data}, not for {args.arch}", tiles
        )
    signature = Signature.of(tiles)
    assert signature is not None
    symbols = sizes_of(args.set, signature)
    kinds = args.draw or KINDS
    draws = {kind: make_inputs(signature, symbols, args.seed, kind) for kind in kinds}
    where = "on the CPU" if gpu is None else gpu.name
    steps.say(f"@{tiles.sym_name.data} for {tiles.arch.data} at {sizes_text(symbols)}, {where}")
    expected: dict[str, Wanted] = {}
    agree: list[str] = []
    if not is_finished(tiles):
        with steps.step("play back tiles") as step:
            for kind, inputs in draws.items():
                if (found := played(tiles, inputs, symbols)) is not None:
                    expected[kind] = found
            if expected:
                agree.append("the tiles")
            else:
                step.note = "no playback of these ops"
        lowered = job.fresh(job.arch).module
        with steps.step("lower from tile level"):
            finish(lowered)
        module = gpu_module_of(lowered, args.graph)
    else:
        module = tiles
    with steps.step("compile") as step:
        program = Program.compile(module)
        step.note = "; ".join(
            f"{name}: {info.registers} registers"
            + (f", {info.spill_bytes} bytes spilled" if info.spill_bytes else "")
            for name, info in program.kernels.items()
        )
    on_gpu = gpu is not None and gpu.runs(module.arch.data)
    if args.check or not on_gpu:
        with steps.step("simulate") as step:
            # Thread by thread the first draw takes long enough, unless all is asked for.
            for kind in draws if args.check else list(draws)[:1]:
                note, threads = simulated(module, draws[kind], symbols, args.seed, steps)
                note += compared(module, "the simulated kernel", threads, expected.get(kind))
                expected.setdefault(kind, [near(x) for x in threads])
                step.note = step.note or note
        agree.append("the simulated threads")
    if on_gpu:
        with steps.step("run") as step:
            for kind, inputs in draws.items():
                made = cast("list[Any]", program.run(inputs, symbols=symbols))
                note = f"variant {program.chosen(symbols)}"
                note += compared(module, "the kernel on the GPU", made, expected.get(kind))
                step.note = step.note or note
        agree.append(f"the kernel on {gpu.name}" if gpu is not None else "")
    if len(agree) > 1:
        steps.say(f"{', '.join(agree[:-1])} and {agree[-1]} agree")
    else:
        steps.say(f"{agree[0]}: no findings, and nothing to compare with")
    return 0


def played(module: GpuModuleOp, inputs: Arrays, symbols: Mapping[str, int]) -> Wanted | None:
    """What the tiles mean, with its errors, or None where the playback does not know an op."""
    try:
        return estimated(module, inputs, symbols)
    except PolycError as error:
        if error.kind != "NotPlayed":
            raise
        return None


def simulated(
    module: GpuModuleOp, inputs: Arrays, symbols: Mapping[str, int], seed: int, steps: Steps
) -> tuple[str, Arrays]:
    """What ran, and the outputs.  Raises what the simulator finds."""
    from polyc.playback.gpu import simulate

    result = simulate(module, inputs, symbols, seed=seed, progress=steps.progress("CTAs"))
    result.check()
    ran = ", ".join(f"{name} {grid}" for name, grid in result.launches) or "nothing"
    return f"CTAs: {ran}", result.outputs


def near(outputs: Any) -> Estimate:
    """What threads computed, as a reference where the text has none.

    Nothing says what the instructions lose, so each row is right to 2⁻¹² of its largest number.
    """
    import numpy as np

    from polyc.playback.estimate import Estimate

    wide = np.asarray(outputs, np.float32)
    size = np.where(np.isfinite(wide), np.abs(wide), 0.0).astype(np.float64)
    row = np.max(size, axis=-1, keepdims=True, initial=0.0) if wide.ndim else size
    return Estimate(wide, np.broadcast_to(row * 2.0**-12, wide.shape))


def compared(module: GpuModuleOp, what: str, found: Arrays, expected: Wanted | None) -> str:
    """The largest error in words.  Raises PolycError of kind ``Disagreement``."""
    import numpy as np

    from polyc.playback.agreement import tolerance_check

    if expected is None:
        return ""
    dispatch = module.dispatch()
    first = dispatch.num_inputs.value.data
    largest = 0.0
    rows = zip(
        list(dispatch.arg_names)[first:],
        list(dispatch.arg_types)[first:],
        found,
        expected,
        strict=True,
    )
    for name, kind, actual, wanted in rows:
        wide = wanted.value.astype(np.float32)
        mismatch = tolerance_check(np.asarray(actual), wanted, kind.element_type)
        if mismatch is not None:
            raise PolycError(
                "Disagreement", f"{what} differs: output {name.data}, {mismatch}", module
            )
        if wide.size:
            with np.errstate(all="ignore"):
                error = np.abs(np.asarray(actual, np.float32) - wide)
            largest = max(largest, float(np.nanmax(np.where(np.isfinite(error), error, 0.0))))
    return f", agrees, largest error {largest:.1e}"
