"""ONNX's backend node cases: what comes of each, played back at the frontend.

A case is ``right`` where its model is imported as it is and its outputs are those that are
expected; ``specialised`` where inputs that say sizes or indices had to be known before the call,
and are the case's own; ``emulated`` where a type that graphs have not is computed in another;
``wrong`` where it is imported and an output is not what is expected; or ``missing``, with what is
missing.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import parameters
from polyc.importers.imported import Imported
from polyc.importers.onnx import finished, walked
from polyc.importers.registry import library
from polyc.playback import frontend
from polyc.playback.functions import DTYPES
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.rewriting.notes import unsaid

STATES = ("right", "specialised", "emulated", "wrong", "missing")

MOST_TRIES = 8
"""How often a case is imported again with more inputs that are known."""


@dataclass(frozen=True)
class Outcome:
    """What came of a case: a state of ``STATES``, and what there is to say of it."""

    state: str
    why: str = ""


@cache
def cases() -> tuple[Any, ...]:
    """All cases of the onnx that is installed, in the order of their names."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        node = library("onnx.backend.test.case.node", "onnx")
        found: list[Any] = node.collect_testcases(None)
    return tuple(sorted(found, key=lambda case: case.name))


def outcome(case: Any) -> Outcome:
    """Import a case, play it back on its inputs, and compare."""
    names = [one.name for one in case.model.graph.input]
    data = [(_arrays(inputs), _arrays(outputs)) for inputs, outputs in case.data_sets]
    with unsaid():  # of inputs that nothing reads
        imported = _imported(case.model, dict(zip(names, data[0][0], strict=False)))
    if isinstance(imported, Outcome):
        return imported
    model, known, emulated = imported
    for inputs, expected in data:
        given = dict(zip(names, inputs, strict=False))
        if any(not _same(given[n], one) for n, one in known.items()):
            return Outcome("missing", "inputs that are known, and are others in each set")
        try:
            found = played(model, given)
        except PolycError as error:
            return Outcome("wrong", f"{error.kind}: {error.message}")
        flat = _flat(expected)
        if len(found) != len(flat):
            return Outcome("wrong", f"{len(found)} outputs in the place of {len(flat)}")
        for name, one, right in zip(model.outputs, found, flat, strict=True):
            if (fault := unlike(one, right, case.rtol, case.atol)) is not None:
                return Outcome("wrong", f"{name}: {fault}")
    if emulated:
        return Outcome("emulated")
    return Outcome("specialised", ", ".join(known)) if known else Outcome("right")


def _imported(
    model: Any, inputs: Mapping[str, Any]
) -> Outcome | tuple[Imported, dict[str, Any], bool]:
    """A model, imported with no more known than it takes, or what is missing."""
    known: dict[str, Any] = {}
    sizes = {n: len(cast("list[Any]", one)) for n, one in inputs.items() if isinstance(one, list)}
    known |= {n: None for n, one in inputs.items() if one is None}
    emulate = False
    for _ in range(MOST_TRIES):
        try:
            walker, outputs = walked(model, known=known, sizes=sizes, emulate=emulate)
            found = walker.faults.found
            if not found:
                return finished(walker, outputs), known | sizes, emulate
            told = [f"{one.op}: {one.why or 'no converter'}" for one in found]
            needs = {n: inputs[n] for n in walker.needs if n not in known}
        except PolycError as error:
            told, needs = list(error.notes) or [f"{error.kind}: {error.message}"], {}
        if not emulate and any("emulate=True" in one for one in told):
            emulate = True
        elif needs:
            known |= needs
        else:
            return Outcome("missing", feature(told[0]))
    return Outcome("missing", "inputs that are known")


def feature(told: str) -> str:
    """What is missing, without where it stands."""
    op, _, rest = told.partition(" at ") if " at " in told.partition(": ")[0] else (told, "", "")
    text = f"{op}: {rest.partition(': ')[2]}" if rest else told
    text = text.replace("UnsupportedProgram: ", "").partition("; emulate=True")[0]
    return text.removesuffix(": no converter")[:160]


def arguments(model: Imported, inputs: Mapping[str, Any]) -> tuple[list[Any], dict[str, int]]:
    """What a model's graph is played on: its inputs and its parameters, and its sizes."""
    graph = model.graph
    arrays: list[Any] = []
    symbols: dict[str, int] = {}
    for name, spec in zip(model.inputs, graph.inputs, strict=True):
        array = _input(inputs, name).astype(DTYPES[spec.type.element_type], copy=False)
        arrays.append(array)
        for dim, size in zip(spec.type.dims, array.shape, strict=True):
            if dim.symbols() == (str(dim),):
                symbols[str(dim)] = size
    entries = dict.fromkeys(one.entry.data for one in parameters(graph))
    return [*arrays, *(np.asarray(model.parameters[entry]) for entry in entries)], symbols


def played(model: Imported, inputs: Mapping[str, Any]) -> Sequence[Any]:
    """The outputs of a model's graph on arrays by the model's names."""
    return frontend.run(model.graph, *arguments(model, inputs))


def _input(inputs: Mapping[str, Any], name: str) -> Any:
    """An input by its name, one of a sequence by its name and place."""
    if name in inputs:
        return inputs[name]
    sequence, _, place = name.rpartition(".")
    return inputs[sequence][int(place)]


def unlike(found: Any, right: Any, rtol: float, atol: float) -> str | None:
    """How an output differs from what is expected, by the tolerances of onnx's own runner."""
    if found.shape != right.shape:
        return f"its shape is {list(found.shape)}, not {list(right.shape)}"
    narrower = right.dtype.name not in ("float64",) or found.dtype != np.float32
    if right.dtype.name in ("int4", "int2", "uint4", "uint2"):
        right = right.astype(np.int8 if right.dtype.name[0] == "i" else np.uint8)
    if found.dtype != right.dtype and narrower and not emulates(found.dtype, right.dtype):
        return f"its type is {found.dtype}, not {right.dtype}"
    if right.dtype.kind in "biu":
        equal = np.equal(found, right)
    else:
        if right.dtype.name == "bfloat16":
            rtol = max(rtol, 2**-6)
        wide = found.astype(np.float64), right.astype(np.float64)
        equal = np.isclose(*wide, rtol=rtol, atol=atol, equal_nan=True)
    if equal.all():
        return None
    return f"{np.count_nonzero(~equal)} of {equal.size} numbers"


def emulates(found: Any, right: Any) -> bool:
    """Whether one type stands for another that graphs have not."""
    if right.name.startswith("float") and right.itemsize == 1:
        return found == np.float32
    return False


def _arrays(given: Sequence[Any]) -> list[Any]:
    onnx = library("onnx", "onnx")

    def array(one: Any) -> Any:
        if one is None or isinstance(one, list):
            return one if one is None else [array(each) for each in cast("list[Any]", one)]
        if isinstance(one, onnx.TensorProto):
            return onnx.numpy_helper.to_array(one)
        return np.asarray(one)

    return [array(one) for one in given]


def _flat(outputs: Sequence[Any]) -> list[Any]:
    """The tensors of outputs, one after another."""
    found: list[Any] = []
    for one in outputs:
        found += cast("list[Any]", one) if isinstance(one, list) else [one]
    return found


def _same(one: Any, other: Any) -> bool:
    if isinstance(other, int):  # the length of a sequence
        return len(one) == other
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and bool((one == other).all())


def board() -> dict[str, Any]:
    """All cases by their states; those that are right are the others."""
    found = {case.name.removeprefix("test_"): outcome(case) for case in cases()}
    counts = [(state, sum(o.state == state for o in found.values())) for state in STATES]
    missing: dict[str, list[str]] = {}
    for name, one in found.items():
        if one.state == "missing":
            missing.setdefault(one.why, []).append(name)
    largest = sorted(missing.items(), key=lambda item: (-len(item[1]), item[0]))
    return {
        "cases": len(found),
        "rows": [{"state": state, "count": count} for state, count in counts],
        "not right": {
            "specialised": {n: o.why for n, o in found.items() if o.state == "specialised"},
            "emulated": [n for n, o in found.items() if o.state == "emulated"],
            "wrong": {n: o.why for n, o in found.items() if o.state == "wrong"},
            "missing": dict(largest),
        },
    }


def states(board: Mapping[str, Any]) -> dict[str, str]:
    """The state of each case of a board that is not right."""
    left = board["not right"]
    found = {n: s for s in ("specialised", "emulated", "wrong") for n in left[s]}
    return found | {n: "missing" for names in left["missing"].values() for n in names}


def lowered(case: Any, simulated: bool = False) -> None:
    """Lower a case that is right, and play each layer back on the case's own inputs; its kernels
    too, in the simulator, where that is asked for.

    Raises PolycError where a layer disagrees with the frontend.
    """
    from polyc.dialects.frontend import GraphOp
    from polyc.rewriting.frontend.parameters import lifted
    from polyc.tools.check import Expected
    from polyc.tools.pipeline import Compilation
    from polyc.tools.registry import make_context

    names = [one.name for one in case.model.graph.input]
    inputs = dict(zip(names, _arrays(case.data_sets[0][0]), strict=False))
    imported = _imported(case.model, inputs)
    assert not isinstance(imported, Outcome), imported
    model = imported[0]
    arrays, symbols = arguments(model, inputs)
    graph = lifted(model.graph)
    assert isinstance(graph, GraphOp)
    expected = Expected.of(graph, symbols, held=dict(enumerate(arrays)))
    layers = ("tiny", "index", "region")
    job = Compilation(make_context(), model.module.clone(), "sm_90a", keep=layers)
    job.run("gpu" if simulated else "region")
    for layer in layers:
        expected.check(job.kept[layer], layer)
    if simulated:
        outputs = simulate(gpu_module_of(job.module), arrays, symbols).outputs
        expected.compare("the simulated kernel", outputs)
