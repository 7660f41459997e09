"""docs/semantics.md, run: every example at the frontend and at the tiny level (S0.6)."""

from __future__ import annotations

import doctest
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f32, i64
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser

from polyc.dialects import frontend, tiny
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.playback import frontend as frontend_playback
from polyc.playback import tiny as tiny_playback
from polyc.playback.functions import DTYPES, Array, element_of, round_to
from polyc.playback.reference import reference
from polyc.rewriting.driver import verify
from polyc.test.support.root import ROOT
from polyc.tools.play import play
from polyc.tools.registry import make_context

DOCUMENT = ROOT / "docs" / "semantics.md"


def _parse(text: str) -> ModuleOp:
    module = Parser(make_context(), text).parse_module()
    verify(module)
    return module


def _play(text: str, inputs: Sequence[Array], symbols: Mapping[str, int] | None = None) -> Array:
    """The first output of the graph; a frontend graph is lowered, and both must agree."""
    module = _parse(text)
    graph = next(iter(module.ops))
    sizes = symbols or {}
    if isinstance(graph, frontend.GraphOp):
        above = frontend_playback.run(graph, inputs, sizes)[0]
        FrontendToTiny().apply(make_context(), module)
        verify(module)
        below = tiny_playback.run(cast(tiny.GraphOp, next(iter(module.ops))), inputs, sizes)[0]
        if above.dtype != np.bool_:
            np.testing.assert_array_equal(np.signbit(above), np.signbit(below))
        np.testing.assert_array_equal(above, below)
        return below
    assert isinstance(graph, tiny.GraphOp)
    return tiny_playback.run(graph, inputs, sizes)[0]


def _scalars(*values: float) -> list[Array]:
    return [np.asarray(v, np.float32) for v in values]


SCALAR = "!frontend.tensor<[], f32>"


def elementwise(fn: str, *args: float) -> float:
    names = [f"%x{'abc'[i]}" for i in range(len(args))]
    types = f"({', '.join([SCALAR] * len(args))}) -> {SCALAR}"
    signature = ", ".join(f"{n}: {SCALAR}" for n in names)
    text = f"""frontend.graph @f({signature}) -> {SCALAR} {{
      %y = frontend.elementwise {fn} {", ".join(names)} : {types}
      frontend.output %y : {SCALAR}
    }}"""
    return float(_play(text, _scalars(*args)))


def cast_to(x: float, element: str) -> float:
    narrow = f"!frontend.tensor<[], {element}>"
    text = f"""frontend.graph @f(%x: {SCALAR}) -> {SCALAR} {{
      %y = frontend.cast %x : {SCALAR} -> {narrow}
      %z = frontend.cast %y : {narrow} -> {SCALAR}
      frontend.output %z : {SCALAR}
    }}"""
    return float(_play(text, _scalars(x)))


def stored(x: float, element: str) -> float:
    narrow = f"!frontend.tensor<[], {element}>"
    text = f"""frontend.graph @f(%x: {SCALAR}) -> {narrow} {{
      %y = frontend.cast %x : {SCALAR} -> {narrow}
      frontend.output %y : {narrow}
    }}"""
    return float(_play(text, _scalars(x)))


def chain(element: str, x: float, *steps: str | tuple[str, float]) -> float:
    """Steps on an ``element`` value: ``(fn, operand)``, or a cast that the user wrote."""
    t = f"!frontend.tensor<[], {element}>"
    operands = [x, *(s[1] for s in steps if not isinstance(s, str))]
    signature = ", ".join(f"%in{chr(97 + i)}: {t}" for i in range(len(operands)))
    lines: list[str] = []
    value, used = "%ina", 1
    for number, step in enumerate(steps):
        result = f"%v{chr(97 + number)}"
        if isinstance(step, str):
            lines.append(f"{result} = frontend.cast {value} : {t} -> {t}")
        else:
            operand = f"%in{chr(97 + used)}"
            used += 1
            lines.append(
                f"{result} = frontend.elementwise {step[0]} {value}, {operand} : ({t}, {t}) -> {t}"
            )
        value = result
    body = "\n".join(lines)
    text = f"frontend.graph @f({signature}) -> {t} {{\n{body}\nfrontend.output {value} : {t}\n}}"
    module = _parse(text)
    (output,) = cast(frontend.GraphOp, next(iter(module.ops))).outputs
    return float(_play(text, [round_to(a, output.type.element_type) for a in _scalars(*operands)]))


def _vectors(values: Mapping[str, Sequence[float]], op: str, result: str = "N") -> list[float]:
    """``op`` on vectors ``%name`` of size N, or of the upper-case name where that is given."""
    sizes: dict[str, int] = {}
    inputs: list[str] = []
    for name, elements in values.items():
        size = "N" if name in "xwb" else name.upper()
        sizes[size] = len(elements)
        inputs.append(f"%{name}: !frontend.tensor<[{size}], f32>")
    t = f"!frontend.tensor<[{result}], f32>"
    text = f"""frontend.graph @f({", ".join(inputs)}) -> {t} {{
      %result = {op}
      frontend.output %result : {t}
    }}"""
    arrays = [np.asarray(v, np.float32) for v in values.values()]
    return cast(list[float], _play(text, arrays, sizes).tolist())


VECTOR = "!frontend.tensor<[N], f32>"


def reduce(fn: str, values: Sequence[float]) -> float:
    """At both levels; a sum also through a product, which playback sums without storing it."""
    op = f"frontend.reduce {fn} %x axes [0] : {VECTOR} -> {SCALAR}"
    result = cast(float, _vectors({"x": values}, op, ""))
    if fn == "sum":
        text = """tiny.graph @f(%x: !tiny.tensor<[N], f32>, %one: !tiny.tensor<[N], f32>) -> !tiny.tensor<[], f32> {
          %p = tiny.binary mul %x, %one : !tiny.tensor<[N], f32>
          %y = tiny.reduce sum %p axes [0] : !tiny.tensor<[N], f32> -> !tiny.tensor<[], f32>
          tiny.output %y : !tiny.tensor<[], f32>
        }"""  # noqa: E501
        array = np.asarray(values, np.float32)
        again = float(_play(text, [array, np.ones_like(array)], {"N": len(values)}))
        assert again == result or (math.isnan(again) and math.isnan(result))
    return result


def scan(fn: str, values: Sequence[Any], type: str = "f32", **ways: bool) -> list[Any]:
    kind = f"!frontend.tensor<[N], {type}>"
    words = " ".join(word for word in ("reverse", "exclusive") if ways.get(word))
    text = f"""frontend.graph @f(%x: {kind}) -> {kind} {{
      %y = frontend.scan {fn} %x axis 0 {words} : {kind}
      frontend.output %y : {kind}
    }}"""
    element = next(t for t in DTYPES if str(t) == type)
    return _play(text, [np.asarray(values, DTYPES[element])], {"N": len(values)}).tolist()


def reduce_conditions(fn: str, values: Sequence[bool]) -> bool:
    kinds = ("!frontend.tensor<[N], i1>", "!frontend.tensor<[], i1>")
    text = f"""frontend.graph @f(%x: {kinds[0]}) -> {kinds[1]} {{
      %y = frontend.reduce {fn} %x axes [0] : {kinds[0]} -> {kinds[1]}
      frontend.output %y : {kinds[1]}
    }}"""
    return bool(_play(text, [np.asarray(values, np.bool_)], {"N": len(values)}))


def classify(fn: str, x: float) -> bool:
    condition = "!frontend.tensor<[], i1>"
    text = f"""frontend.graph @f(%x: {SCALAR}) -> {condition} {{
      %y = frontend.classify {fn} %x : {SCALAR} -> {condition}
      frontend.output %y : {condition}
    }}"""
    return bool(_play(text, _scalars(x)))


def softmax(values: Sequence[float]) -> list[float]:
    return _vectors({"x": values}, f"frontend.softmax %x axes [0] : {VECTOR}")


def log_softmax(values: Sequence[float]) -> list[float]:
    return _vectors({"x": values}, f"frontend.log_softmax %x axes [0] : {VECTOR}")


def _norm(op: str, values: dict[str, Sequence[float]], names: str, eps: float) -> list[float]:
    types = f"({', '.join([VECTOR] * len(values))}) -> {VECTOR}"
    return _vectors(values, f"frontend.{op} %x {names} axes [0] eps {eps} : {types}")


def layer_norm(
    x: Sequence[float],
    eps: float,
    weight: Sequence[float] | None = None,
    bias: Sequence[float] | None = None,
) -> list[float]:
    given = {k: v for k, v in {"x": x, "w": weight, "b": bias}.items() if v is not None}
    names = ("weight %w " if weight is not None else "") + ("bias %b" if bias is not None else "")
    return _norm("layer_norm", given, names, eps)


def rms_norm(x: Sequence[float], eps: float, weight: Sequence[float] | None = None) -> list[float]:
    given = {k: v for k, v in {"x": x, "w": weight}.items() if v is not None}
    return _norm("rms_norm", given, "weight %w" if weight is not None else "", eps)


def slice_of(x: Sequence[float], low: int, high: int, step: int) -> list[float]:
    n, size = len(x), -(-(high - low) // step)
    whole, part = f"!frontend.tensor<[{n}], f32>", f"!frontend.tensor<[{size}], f32>"
    text = f"""frontend.graph @f(%x: {whole}) -> {part} {{
      %y = frontend.slice %x [{low}:{high}:{step}] : {whole} -> {part}
      frontend.output %y : {part}
    }}"""
    return cast(list[float], _play(text, [np.asarray(x, np.float32)]).tolist())


def pad(x: Sequence[float], low: int, high: int, value: float) -> list[float]:
    t = f"!frontend.tensor<[N + {low + high}], f32>"
    op = f"frontend.pad %x low [{low}] high [{high}] value {value} : {VECTOR} -> {t}"
    return _vectors({"x": x}, op, f"N + {low + high}")


def concat(*parts: Sequence[float]) -> list[float]:
    names = "pqrs"[: len(parts)]
    types = ", ".join(f"!frontend.tensor<[{n.upper()}], f32>" for n in names)
    total = " + ".join(names.upper())
    operands = ", ".join(f"%{n}" for n in names)
    op = f"frontend.concat {operands} axis 0 : ({types}) -> !frontend.tensor<[{total}], f32>"
    return _vectors(dict(zip(names, parts, strict=True)), op, total)


def mask(x: Sequence[Sequence[float]], condition: str, fill: float) -> list[list[float]]:
    t = "!tiny.tensor<[M, N], f32>"
    text = f"""tiny.graph @f(%x: {t}) -> {t} {{
      %y = tiny.mask %x where affine_set<(d0, d1)[s0, s1] : ({condition})> fill {fill} : {t} -> {t}
      tiny.output %y : {t}
    }}"""
    array = np.asarray(x, np.float32)
    sizes = dict(zip("MN", array.shape, strict=True))
    return cast(list[list[float]], _play(text, [array], sizes).tolist())


Matrix = Sequence[Sequence[float]]


def conv2d(
    image: Matrix,
    weight: Matrix,
    *,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
) -> list[list[float]]:
    """One channel and one filter, in both layouts."""
    x, w = np.asarray(image, np.float32), np.asarray(weight, np.float32)
    low = (padding[0] + padding[1], padding[2] + padding[3])
    rows, columns = (
        (x.shape[i] + low[i] - dilation[i] * (w.shape[i] - 1) - 1) // stride[i] + 1 for i in (0, 1)
    )
    found: list[Array] = []
    for layout in frontend.LAYOUTS:

        def shaped(a: int, b: int, layout: str = layout) -> tuple[int, ...]:
            return (1, 1, a, b) if layout == "nchw" else (1, a, b, 1)

        xt, wt, yt = (
            f"!frontend.tensor<{list(shaped(*s))}, f32>"
            for s in (x.shape, w.shape, (rows, columns))
        )
        text = f"""frontend.graph @f(%x: {xt}, %w: {wt}) -> {yt} {{
          %y = frontend.conv2d {layout} %x, %w stride {list(stride)} padding {list(padding)}
              dilation {list(dilation)} groups 1 {{acc = f32}} : ({xt}, {wt}) -> {yt}
          frontend.output %y : {yt}
        }}"""
        arrays = [x.reshape(shaped(*x.shape)), w.reshape(shaped(*w.shape))]
        found.append(_play(text, arrays).reshape(rows, columns))
    np.testing.assert_array_equal(found[0], found[1])
    return cast(list[list[float]], found[0].tolist())


def conv_transpose1d(
    image: Sequence[float],
    weight: Sequence[float],
    *,
    stride: int = 1,
    padding: tuple[int, int] = (0, 0),
    output_padding: int = 0,
    dilation: int = 1,
) -> list[float]:
    """One channel and one filter."""
    arrays = [np.asarray(v, np.float32).reshape(1, 1, -1) for v in (image, weight)]
    kinds = [frontend.tensor(a.shape, f32) for a in arrays]
    op = frontend.ConvTranspose1dOp(
        *(frontend.ConstantOp(0.0, kind).result for kind in kinds),
        stride=[stride],
        padding=padding,
        output_padding=[output_padding],
        dilation=[dilation],
    )
    return cast(list[float], _alone(op, arrays)[0, 0].tolist())


def resize(
    x: Sequence[float],
    size: int,
    coordinates: str = "half_pixel",
    rounding: str | None = None,
    mode: str = "nearest",
    coefficient: float | None = None,
    exclude_outside: bool = False,
) -> list[float]:
    value = frontend.ConstantOp(0.0, frontend.tensor([len(x)], f32)).result
    op = frontend.ResizeOp(
        value,
        [0],
        [size],
        mode=mode,
        coordinates=coordinates,
        rounding=rounding,
        coefficient=coefficient,
        exclude_outside=exclude_outside,
    )
    return cast(list[float], _alone(op, [np.asarray(x, np.float32)]).tolist())


def gather(
    x: Sequence[Any], at: Any, axis: int = 0, *, fill: float | None = None, from_end: bool = False
) -> Any:
    return _gathered(frontend.GatherOp, x, at, axis, fill, from_end)


def gather_elements(
    x: Sequence[Any], at: Any, axis: int = 0, *, fill: float | None = None, from_end: bool = False
) -> Any:
    return _gathered(frontend.GatherElementsOp, x, at, axis, fill, from_end)


def gather_nd(
    x: Sequence[Any], at: Any, batch: int = 0, *, fill: float | None = None, from_end: bool = False
) -> Any:
    return _gathered(frontend.GatherNdOp, x, at, batch, fill, from_end)


def _gathered(
    kind: type[frontend.GatherOp | frontend.GatherElementsOp | frontend.GatherNdOp],
    x: Sequence[Any],
    at: Any,
    number: int,
    fill: float | None,
    from_end: bool,
) -> Any:
    arrays = [np.asarray(x, np.float32), np.asarray(at, np.int64)]
    value, index = (
        frontend.ConstantOp(0, frontend.tensor(array.shape, element)).result
        for array, element in zip(arrays, (f32, i64), strict=True)
    )
    return _alone(kind(value, index, number, fill, from_end=from_end), arrays).tolist()


def scatter(fn: str, x: Any, at: Any, updates: Any, axis: int = 0, **ways: Any) -> Any:
    return _scattered(frontend.ScatterOp, fn, x, at, updates, axis, **ways)


def scatter_elements(fn: str, x: Any, at: Any, updates: Any, axis: int = 0, **ways: Any) -> Any:
    return _scattered(frontend.ScatterElementsOp, fn, x, at, updates, axis, **ways)


def scatter_nd(fn: str, x: Any, at: Any, updates: Any, batch: int = 0, **ways: Any) -> Any:
    return _scattered(frontend.ScatterNdOp, fn, x, at, updates, batch, **ways)


def _scattered(
    kind: type[frontend.ScatterOp | frontend.ScatterElementsOp | frontend.ScatterNdOp],
    fn: str,
    x: Any,
    at: Any,
    updates: Any,
    number: int,
    *,
    type: str = "f32",
    from_end: bool = False,
) -> Any:
    element = next(t for t in DTYPES if str(t) == type)
    kinds = (element, i64, element)
    arrays = [np.asarray(v, DTYPES[t]) for v, t in zip((x, at, updates), kinds, strict=True)]
    value, index, new = (
        frontend.ConstantOp(0, frontend.tensor(array.shape, t)).result
        for array, t in zip(arrays, kinds, strict=True)
    )
    return _alone(kind(fn, value, index, new, number, from_end=from_end), arrays).tolist()


def _alone(op: IRDLOperation, arrays: Sequence[Array]) -> Array:
    """The result of an op on inputs, in the place of its operands."""
    kinds, result = [o.type for o in op.operands], op.results[0]
    graph = frontend.GraphOp("f", kinds, [result.type])
    op.operands = list(graph.body.block.args)
    graph.body.block.add_ops([op, frontend.OutputOp([result])])
    return _play(str(graph), arrays)


def pool(
    fn: str,
    x: Sequence[float],
    size: int,
    *,
    stride: int = 1,
    padding: tuple[int, int] = (0, 0),
    dilation: int = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    element: str = "f32",
) -> list[float]:
    array = np.asarray(x, np.float32 if element == "f32" else _dtype(element))
    kind = frontend.tensor([len(x)], element_of(array.dtype))
    op = frontend.PoolOp(
        fn,
        frontend.ConstantOp(0, kind).result,
        [0],
        [size],
        stride=[stride],
        padding=padding,
        dilation=[dilation],
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )
    return cast(list[float], _alone(op, [array]).tolist())


def adaptive_pool(fn: str, x: Sequence[float], count: int) -> list[float]:
    array = np.asarray(x, np.float32)
    operand = frontend.ConstantOp(0, frontend.tensor(array.shape, f32)).result
    op = frontend.AdaptivePoolOp(fn, operand, [0], [count])
    return cast(list[float], _alone(op, [array]).tolist())


def window_places(
    fn: str,
    x: Sequence[Sequence[float]],
    size: tuple[int, int],
    *,
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    whole: bool = False,
) -> list[list[int]]:
    array = np.asarray(x, np.float32)[None]
    op = frontend.ArgPoolOp(
        fn,
        frontend.ConstantOp(0, frontend.tensor(array.shape, f32)).result,
        [1, 2],
        size,
        padding=padding,
        whole=whole,
    )
    return cast(list[list[int]], _alone(op, [array])[0].tolist())


def grid_sample(
    x: Sequence[float],
    grid: Sequence[float],
    mode: str = "linear",
    *,
    padding: str = "zeros",
    corners: bool = False,
) -> list[float]:
    arrays = [np.asarray(x, np.float32)[None, None], np.asarray(grid, np.float32)[None, :, None]]
    operands = [frontend.ConstantOp(0, frontend.tensor(a.shape, f32)).result for a in arrays]
    op = frontend.GridSampleOp(*operands, mode=mode, padding=padding, align_corners=corners)
    return cast(list[float], _alone(op, arrays)[0, 0].tolist())


def _attention(
    q: Matrix,
    k: Matrix,
    v: Matrix,
    output: int,
    *,
    mask: Sequence[Sequence[bool]] | Matrix | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    offset: int = 0,
    features: int | None = None,
    cap: float | None = None,
) -> Array:
    """One head with a scale of 1; output 0 is the result, 1 the log-sum-exp."""
    arrays = [np.asarray(q, np.float32)[None]]
    width = features if features is not None else len(v[0])
    arrays.append(np.asarray(k, np.float32).reshape(1, len(k), arrays[0].shape[2]))
    arrays.append(np.asarray(v, np.float32).reshape(1, len(v), width))
    types = [f"!frontend.tensor<[1, {a}], f32>" for a in ("M, D", "N, D", "N, E")]
    names = ["%q", "%k", "%v"]
    if mask is not None:
        given = np.asarray(mask)
        boolean = given.dtype == np.bool_
        arrays.append(given if boolean else given.astype(np.float32))
        types.append(f"!frontend.tensor<[M, N], {'i1' if boolean else 'f32'}>")
        names.append("%m")
    results = "!frontend.tensor<[1, M, E], f32>", "!frontend.tensor<[1, M], f32>"
    parts = ["mask %m" if mask is not None else "", "scale 1.0"]
    parts += [f"cap {cap}" if cap is not None else "", "causal" if causal else ""]
    parts += [f"window {list(window)}" if window else "", f"offset {offset}" if offset else ""]
    signature = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    text = f"""frontend.graph @f({signature}) -> {results[output]} {{
      %o, %l = frontend.attention %q, %k, %v {" ".join(parts)} {{acc = f32}}
          : ({", ".join(types)}) -> ({", ".join(results)})
      frontend.output {("%o", "%l")[output]} : {results[output]}
    }}"""
    sizes = {"M": len(q), "N": len(k), "D": arrays[0].shape[2], "E": width}
    return _play(text, arrays, sizes)[0]


def attention(q: Matrix, k: Matrix, v: Matrix, **options: Any) -> list[list[float]]:
    return cast(list[list[float]], _attention(q, k, v, 0, **options).tolist())


def log_sum_exp(q: Matrix, k: Matrix, v: Matrix, **options: Any) -> list[float]:
    return cast(list[float], _attention(q, k, v, 1, **options).tolist())


def gemm(
    a: Sequence[Sequence[float]],
    b: Sequence[Sequence[float]],
    element: str,
    n: int | None = None,
    plus: float | None = None,
) -> list[list[float]]:
    """The product in an f32 output; ``plus`` is added to ``a`` first."""
    columns = n if n is not None else len(b[0])
    sizes = {"M": len(a), "K": len(b), "N": columns}
    left, right = f"!frontend.tensor<[M, K], {element}>", f"!frontend.tensor<[K, N], {element}>"
    one, result = f"!frontend.tensor<[1], {element}>", "!frontend.tensor<[M, N], f32>"
    add = f"%s = frontend.elementwise add %a, %p : ({left}, {one}) -> {left}"
    text = f"""frontend.graph @f(%a: {left}, %b: {right}, %p: {one}) -> {result} {{
      {add if plus is not None else ""}
      %c = frontend.gemm {"%a" if plus is None else "%s"}, %b {{acc = f32}}
          : ({left}, {right}) -> {result}
      frontend.output %c : {result}
    }}"""
    graph = cast(frontend.GraphOp, next(iter(_parse(text).ops)))
    arrays = [
        np.asarray(a, np.float32).reshape(sizes["M"], sizes["K"]),
        np.asarray(b, np.float32).reshape(sizes["K"], sizes["N"]),
        np.asarray([plus or 0.0], np.float32),
    ]
    stored_as = [
        round_to(x, spec.type.element_type) for x, spec in zip(arrays, graph.inputs, strict=True)
    ]
    return cast(list[list[float]], _play(text, stored_as, sizes).tolist())


def select(relation: str, x: float, y: float, a: float, b: float) -> float:
    condition = "!frontend.tensor<[], i1>"
    signature = ", ".join(f"%{n}: {SCALAR}" for n in "xyab")
    text = f"""frontend.graph @f({signature}) -> {SCALAR} {{
      %c = frontend.compare {relation} %x, %y : ({SCALAR}, {SCALAR}) -> {condition}
      %s = frontend.select %c, %a, %b : ({condition}, {SCALAR}, {SCALAR}) -> {SCALAR}
      frontend.output %s : {SCALAR}
    }}"""
    return float(_play(text, _scalars(x, y, a, b)))


def read_twice(values: Sequence[float], element: str) -> tuple[float, float, float]:
    """A sum that two ops read: as it is computed, from memory, and by how much a reader is off."""
    vector, scalar = f"!frontend.tensor<[N], {element}>", f"!frontend.tensor<[], {element}>"
    text = f"""frontend.graph @f(%x: {vector}) -> ({SCALAR}, {SCALAR}) {{
      %h = frontend.reduce sum %x axes [0] : {vector} -> {scalar}
      %a = frontend.elementwise abs %h : {scalar}
      %b = frontend.elementwise neg %h : {scalar}
      %c = frontend.cast %a : {scalar} -> {SCALAR}
      %d = frontend.cast %b : {scalar} -> {SCALAR}
      frontend.output %c, %d : {SCALAR}, {SCALAR}
    }}"""
    module = _parse(text)
    graph = cast(frontend.GraphOp, next(iter(module.ops)))
    inputs = [round_to(np.asarray(values, np.float32), graph.inputs[0].type.element_type)]
    sizes = {"N": len(values)}
    known = reference(graph, inputs, sizes)[0]
    for each in (FrontendToTiny(), TinyToIndex(), IndexToRegion(fuse="none")):
        each.apply(make_context(), module)
    found = play(module, "f", inputs, sizes)
    assert found is not None
    return float(_play(text, inputs, sizes)), float(found[0]), float(known.error)


def _numbers(text: str, inputs: Sequence[tuple[Sequence[Any] | Any, str]], sizes: int) -> Any:
    arrays = [np.asarray(x, np.float32 if t == "f32" else _dtype(t)) for x, t in inputs]
    found = _play(text, arrays, {"N": sizes})
    if found.ndim:
        return (found if found.dtype.kind in "iub" else found.astype(np.float32)).tolist()
    return found.astype(np.float32).item() if found.dtype.kind not in "iub" else int(found)


def _dtype(element: str) -> Any:
    return np.dtype("bool" if element == "i1" else element.replace("i", "int"))


def integers(fn: str, element: str, *args: int) -> Any:
    t = f"!frontend.tensor<[], {element}>"
    names = [f"%x{'ab'[i]}" for i in range(len(args))]
    text = f"""frontend.graph @f({", ".join(f"{n}: {t}" for n in names)}) -> {t} {{
      %y = frontend.elementwise {fn} {", ".join(names)} : ({", ".join([t] * len(args))}) -> {t}
      frontend.output %y : {t}
    }}"""
    return _numbers(text, [(x, element) for x in args], 0)


def converted(x: Any, element: str, other: str) -> Any:
    source, target = (f"!frontend.tensor<[], {t}>" for t in (element, other))
    text = f"""frontend.graph @f(%x: {source}) -> {target} {{
      %y = frontend.cast %x : {source} -> {target}
      frontend.output %y : {target}
    }}"""
    return _numbers(text, [(x, element)], 0)


def ranged(fn: str, element: str, values: Sequence[int]) -> Any:
    source, target = (f"!frontend.tensor<[{n}], {element}>" for n in ("N", ""))
    text = f"""frontend.graph @f(%x: {source}) -> {target} {{
      %y = frontend.reduce {fn} %x axes [0] : {source} -> {target}
      frontend.output %y : {target}
    }}"""
    return _numbers(text, [(values, element)], len(values))


def random_numbers(
    fn: str,
    count: int,
    element: str | None = None,
    *,
    seed: int,
    offset: int = 0,
    p: float | None = None,
) -> Any:
    element = element or {"bits": "ui32", "bernoulli": "i1"}.get(fn, "f32")
    chance = "" if p is None else f" p {p}"
    kinds, kind = "!frontend.tensor<[], i64>", f"!frontend.tensor<[{count}], {element}>"
    text = f"""frontend.graph @f(%s: {kinds}, %o: {kinds}) -> {kind} {{
      %y = frontend.random {fn} %s, %o{chance} : ({kinds}, {kinds}) -> {kind}
      frontend.output %y : {kind}
    }}"""
    return _numbers(text, [(seed, "i64"), (offset, "i64")], 0)


def dropout(values: Sequence[float], p: float, *, seed: int) -> Any:
    kind, number = f"!frontend.tensor<[{len(values)}], f32>", "!frontend.tensor<[], i64>"
    text = f"""frontend.graph @f(%x: {kind}, %s: {number}) -> {kind} {{
      %y = frontend.dropout %x, %s, %s p {p} : ({kind}, {number}, {number}) -> {kind}
      frontend.output %y : {kind}
    }}"""
    return _numbers(text, [(values, "f32"), (seed, "i64")], 0)


def place(fn: str, values: Sequence[float], *, last: bool = False) -> int:
    source, target = "!frontend.tensor<[N], f32>", "!frontend.tensor<[], i64>"
    text = f"""frontend.graph @f(%x: {source}) -> {target} {{
      %y = frontend.arg_reduce {fn} %x axis 0 {"last " * last}: {source} -> {target}
      frontend.output %y : {target}
    }}"""
    return int(_play(text, [np.asarray(values, np.float32)], {"N": len(values)}))


def in_order(
    values: Sequence[float], *, first: int | None = None, descending: bool = False
) -> tuple[list[float], list[int]]:
    count = len(values)
    source = f"!frontend.tensor<[{count}], f32>"
    many = count if first is None else first
    kinds = [f"!frontend.tensor<[{many}], {t}>" for t in ("f32", "i64")]
    found: list[list[Any]] = []
    types = f"({source}) -> ({', '.join(kinds)})"
    for name, kind in zip("vp", kinds, strict=True):
        text = f"""frontend.graph @f(%x: {source}) -> {kind} {{
          %v, %p = frontend.sort %x axis 0 {"descending " * descending}: {types}
          frontend.output %{name} : {kind}
        }}"""
        found.append(_play(text, [np.asarray(values, np.float32)]).tolist())
    return found[0], found[1]


NAMES: dict[str, Any] = {
    "attention": attention,
    "cast": cast_to,
    "chain": chain,
    "classify": classify,
    "concat": concat,
    "converted": converted,
    "conv2d": conv2d,
    "conv_transpose1d": conv_transpose1d,
    "dropout": dropout,
    "elementwise": elementwise,
    "gather": gather,
    "gather_elements": gather_elements,
    "gather_nd": gather_nd,
    "gemm": gemm,
    "grid_sample": grid_sample,
    "in_order": in_order,
    "inf": math.inf,
    "integers": integers,
    "layer_norm": layer_norm,
    "log_softmax": log_softmax,
    "log_sum_exp": log_sum_exp,
    "mask": mask,
    "nan": math.nan,
    "pad": pad,
    "place": place,
    "pool": pool,
    "adaptive_pool": adaptive_pool,
    "window_places": window_places,
    "random_numbers": random_numbers,
    "ranged": ranged,
    "read_twice": read_twice,
    "reduce": reduce,
    "scan": scan,
    "scatter": scatter,
    "scatter_elements": scatter_elements,
    "scatter_nd": scatter_nd,
    "reduce_conditions": reduce_conditions,
    "resize": resize,
    "rms_norm": rms_norm,
    "select": select,
    "slice": slice_of,
    "softmax": softmax,
    "stored": stored,
}


def _blocks() -> list[tuple[str, str, int]]:
    """Every block of examples: its heading, its text, its line."""
    text = DOCUMENT.read_text()
    found: list[tuple[str, str, int]] = []
    for match in re.finditer(r"^```pycon\n(.*?)^```$", text, re.M | re.S):
        before = text[: match.start()]
        heading = re.findall(r"^#+ (.*)$", before, re.M)[-1]
        found.append((heading, match[1], before.count("\n") + 1))
    return found


@pytest.mark.parametrize(
    ("heading", "source", "line"), [pytest.param(*b, id=f"{b[0]}:{b[2]}") for b in _blocks()]
)
def test_examples_of_the_document(heading: str, source: str, line: int) -> None:
    test = doctest.DocTestParser().get_doctest(source, dict(NAMES), heading, str(DOCUMENT), line)
    report: list[str] = []
    results = doctest.DocTestRunner().run(test, out=report.append)
    assert results.attempted > 0
    assert not results.failed, "".join(report)


@pytest.mark.parametrize("fn", [*frontend.UNARY_FUNCTIONS, *frontend.BINARY_FUNCTIONS])
def test_document_names_every_function(fn: str) -> None:
    assert f'elementwise("{fn}"' in DOCUMENT.read_text()


@pytest.mark.parametrize("fn", [*frontend.UNARY_FUNCTIONS, *frontend.BINARY_FUNCTIONS])
def test_nan_goes_through(fn: str) -> None:
    nan = math.nan
    if fn in frontend.UNARY_FUNCTIONS:
        assert math.isnan(elementwise(fn, nan))
    else:
        assert math.isnan(elementwise(fn, nan, 2.0))
        assert math.isnan(elementwise(fn, 2.0, nan))
