"""``gpu-vectorize``: what becomes one access, what must not, and that the numbers stay."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.kernel import KernelOp
from polyc.test.support.gpu_text import find, kernel, only, run, unchanged
from polyc.test.support.simulate import Simulator

PASS = "gpu-vectorize"
SYMBOLS = "%M: index = symbol M, %N: index = symbol N, %p: i1 = symbol P"


def loop(
    body: str,
    align: int = 16,
    bound: int = 16,
    attributes: str = "{unroll}",
    step: int = 1,
    element: str = "f32",
    before: str = "",
    arrays: str = "",
) -> str:
    """A loop over r of thread t; it may store to C [M, N] and load from A [M, N] and b [N]."""
    c, v = f"!gpu.global<[M, N], {element}, align {align}>", f"!gpu.global<[N], f32, align {align}>"
    return kernel(
        f"""
    %t = gpu.thread_id
    %x = arith.constant 1.0 : f32
    %low = arith.constant 0 : index
    %high = arith.constant {bound} : index
    %step = arith.constant {step} : index
    %registers = memref.alloca() : memref<16xf32, #gpu<space register>>
    {before}
    scf.for %r = %low to %high step %step {{
{body}
    }} {attributes}""",
        f"%C: {c} = tensor 0, %A: {c} = tensor 1, %b: {v} = tensor 2, {SYMBOLS}",
        threads=32,
        symbols="M, N",
    )


C = "!gpu.global<[M, N], f32, align 16>"
B = "!gpu.global<[N], f32, align 16>"
CONDITIONS = "!gpu.global<[M, N], i1, align 4>"
COLUMN = "%c = affine.apply affine_map<(t, r) -> (t * 16 + r)>(%t, %r)\n"
STORE = f"gpu.store_global %x, %C[%M, %c : index, index] : f32, {C}"


def widths(module: ModuleOp) -> list[int]:
    """Elements of each global access, in the order of the text."""
    return [
        hw.vector_length(op.value.type if isinstance(op, hw.StoreGlobalOp) else op.result.type)
        for op in module.walk()
        if isinstance(op, hw.StoreGlobalOp | hw.LoadGlobalOp)
    ]


def bounds(module: ModuleOp) -> tuple[int, int]:
    """Upper bound and step of the one loop."""
    op = only(module, scf.ForOp)
    numbers: list[int] = []
    for value in (op.ub, op.step):
        assert isinstance(value.owner, arith.ConstantOp)
        numbers.append(int(str(value.owner.value).split()[0]))
    return numbers[0], numbers[1]


def test_vectorize_loop_fires() -> None:
    module = run(loop(COLUMN + STORE), PASS)
    assert widths(module) == [4]
    assert bounds(module) == (16, 4)


@pytest.mark.parametrize(("shift", "width"), [(-8, 4), (-2, 2), (-1, 1)])
def test_a_vector_lies_whole_on_one_side_of_the_first_element(shift: int, width: int) -> None:
    """Its first element's guard, by both bounds in one comparison, is then all elements'."""
    place = f"%c = affine.apply affine_map<(t, r) -> (t * 16 + r + {shift})>(%t, %r)\n"
    guard = "%g = arith.cmpi ult, %c, %N : index\n"
    store = STORE.replace("index]", "index] if %g")
    assert widths(run(loop(place + guard + store), PASS)) == [width]


@pytest.mark.parametrize(
    ("element", "align", "width"),
    [("f32", 16, 4), ("f32", 8, 2), ("f32", 4, 1), ("f16", 16, 8), ("f16", 8, 4), ("f16", 4, 2)],
)
def test_the_alignment_of_rows_bounds_the_width(element: str, align: int, width: int) -> None:
    kind = f"!gpu.global<[M, N], {element}, align {align}>"
    body = (
        f"{COLUMN}%y = arith.constant 1.0 : {element}\n"
        f"gpu.store_global %y, %C[%M, %c : index, index] : {element}, {kind}"
    )
    assert widths(run(loop(body, align, element=element), PASS)) == [width]


COORDINATES = {
    "from a multiple of the width": ("(t, r) -> (t * 8 + r)", 4),
    "by two's": ("(t, r) -> (t * 2 + r mod 2 + r floordiv 2 * 64)", 2),
    "reordered within four": ("(t, r) -> (t * 16 + r floordiv 4 * 4 + r mod 4)", 4),
    "from an odd place": ("(t, r) -> (t * 16 + r + 1)", 1),
    "from the thread's own place": ("(t, r) -> (t + r)", 1),
    "with a stride": ("(t, r) -> (t * 64 + r * 2)", 1),
    "backwards": ("(t, r) -> (t * 16 + 15 - r)", 1),
    "the same one": ("(t, r) -> (t * 16)", 1),
    "pairs exchanged": ("(t, r) -> (t * 16 + r + 1 - (r mod 2) * 2)", 1),
}


@pytest.mark.parametrize(("access", "width"), COORDINATES.values(), ids=COORDINATES)
def test_isl_decides_which_coordinates_are_a_vector(access: str, width: int) -> None:
    column = f"%c = affine.apply affine_map<{access}>(%t, %r)\n"
    assert widths(run(loop(column + STORE), PASS)) == [width]


def test_a_row_that_changes_is_no_vector() -> None:
    row = "%q = affine.apply affine_map<(r) -> (r floordiv 2)>(%r)\n"
    store = STORE.replace("[%M, %c", "[%q, %c")
    assert widths(run(loop(COLUMN + row + store), PASS)) == [2]
    assert widths(run(loop(COLUMN + STORE.replace("[%M, %c", "[%r, %c")), PASS)) == [1]


def test_the_tiles_place_is_a_multiple_of_its_size() -> None:
    """What gpu.tile_coordinates gives counts; an argument may be anything."""
    column = "%c = affine.apply affine_map<(t, r)[n] -> (t * 16 + r + n)>(%t, %r)[{}]\n"
    tile = '%m0, %n0 = gpu.tile_coordinates[%M, %N] tile <16, {}> raster "grouped" 8'
    for size, width in ((64, 4), (4, 4), (6, 2), (5, 1)):
        text = loop(column.format("%n0") + STORE, before=tile.format(size))
        assert widths(run(text, PASS)) == [width]
    assert widths(run(loop(column.format("%N") + STORE), PASS)) == [1]


@pytest.mark.parametrize(
    ("access", "width"),
    [
        ("(n) -> (n + 2)", 2),
        ("(n) -> (n + 8)", 4),
        ("(n) -> (n * 3 + 4)", 4),
        ("(n) -> (n + 3)", 1),
        ("(n) -> (n floordiv 4)", 1),
    ],
)
def test_what_is_computed_from_the_tiles_place_is_a_multiple_too(access: str, width: int) -> None:
    before = '%m0, %n0 = gpu.tile_coordinates[%M, %N] tile <16, 64> raster "grouped" 8'
    before += f"\n    %q = affine.apply affine_map<{access}>(%n0)"
    column = "%c = affine.apply affine_map<(t, r, q) -> (t * 16 + r + q)>(%t, %r, %q)\n"
    assert widths(run(loop(column + STORE, before=before), PASS)) == [width]


ADDRESS = """%tile = gpu.shared_tile at 0 : !gpu.shared<[1, 4], f32, swizzle 0>
    %zero = arith.constant 0 : index
    %address = gpu.shared_address %tile[%zero] : !gpu.shared<[1, 4], f32, swizzle 0>"""
FILL = f"""{COLUMN}%y = gpu.load_global %A[%M, %c : index, index] : {C} -> f32
        memref.store %y, %registers[%r] : memref<16xf32, #gpu<space register>>"""


def test_a_loop_that_only_fills_registers_loads_vectors() -> None:
    assert widths(run(loop(FILL), PASS)) == [4]


def test_a_loop_that_computes_of_what_it_loads_alone_loads_vectors() -> None:
    made = FILL.replace("memref.store %y", "%z = arith.mulf %y, %x : f32\nmemref.store %z")
    assert widths(run(loop(made), PASS)) == [4]


def test_shared_memory_is_read_one_by_one_beside_vectors() -> None:
    body = f"{COLUMN}%y = gpu.load_shared %address : f32\n{STORE.replace('%x', '%y')}"
    module = run(loop(body, before=ADDRESS), PASS)
    assert widths(module) == [4]
    assert len(find(module, hw.LoadSharedOp)) == 4


LEFT_ALONE = {
    "shared memory that every iteration writes": loop(
        f"{COLUMN}gpu.store_shared %x, %address : f32\n{STORE}", before=ADDRESS
    ),
    "not unrolled": loop(COLUMN + STORE, attributes=""),
    "a step of 2": loop(COLUMN + STORE, step=2),
    "an odd number of iterations": loop(COLUMN + STORE, bound=15),
    "no store": loop("%c = arith.addf %x, %x : f32"),
    "a branch inside": loop(f"{COLUMN}scf.if %p {{ {STORE} }}"),
    "vectors already": loop(
        f"{COLUMN}%y = gpu.pack %x, %x : f32, f32 -> vector<2xf32>\n"
        + STORE.replace("%x", "%y").replace(": f32", ": vector<2xf32>")
    ),
    "a barrier inside": loop(f"{COLUMN}{STORE}\ngpu.barrier"),
    "a register that every iteration changes": loop(
        f"""{COLUMN}%old = memref.load %registers[%low] : memref<16xf32, #gpu<space register>>
        %new = arith.addf %old, %x : f32
        memref.store %new, %registers[%low] : memref<16xf32, #gpu<space register>>
        {STORE.replace("%x", "%new")}"""
    ),
    "registers that it computes of others": loop(
        FILL.replace(
            "memref.store %y",
            """%old = memref.load %more[%r] : memref<16xf32, #gpu<space register>>
            %z = arith.mulf %y, %old : f32\nmemref.store %z""",
        ),
        before="%more = memref.alloca() : memref<16xf32, #gpu<space register>>",
    ),
    "a tensor that it stores to is read": loop(
        f"""{COLUMN}%y = gpu.load_global %C[%M, %c : index, index] : {C} -> f32
        {STORE.replace("%x", "%y")}"""
    ),
    "a guard of each element's own": loop(
        f"""{COLUMN}%even = affine.apply affine_map<(r) -> (r mod 2)>(%r)
        %q = arith.cmpi eq, %even, %low : index
        {STORE.replace("] :", "] if %q :")}"""
    ),
    "a guard of a register that half of a vector have": loop(
        f"""{COLUMN}%half = affine.apply affine_map<(r) -> (r mod 3)>(%r)
        %held = memref.load %registers[%half] : memref<16xf32, #gpu<space register>>
        %q = arith.cmpf ogt, %held, %x : f32
        {STORE.replace("] :", "] if %q :")}"""
    ),
    "a guard that parts a vector": loop(
        f"""{COLUMN}%above = affine.apply affine_map<(r) -> (r + 1)>(%r)
        %q = arith.cmpi slt, %above, %N : index
        {STORE.replace("] :", "] if %q :")}"""
    ),
    "a guard by what need not be whole vectors": loop(
        f"""{COLUMN}%q = arith.cmpi slt, %r, %M : index
        {STORE.replace("] :", "] if %q :")}"""
    ),
}


@pytest.mark.parametrize("text", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_vectorize_loop_leaves_alone(text: str) -> None:
    unchanged(text, PASS)


GUARDS = {
    "bounds": (
        f"""{COLUMN}%q = arith.cmpi slt, %c, %N : index
        {STORE.replace("] :", "] if %q :")}"""
    ),
    "both bounds": (
        f"""{COLUMN}%row = affine.apply affine_map<(m) -> (m + 1)>(%M)
        %q = arith.cmpi slt, %row, %M : index
        %w = arith.cmpi slt, %c, %N : index
        %both = arith.andi %q, %w : i1
        {STORE.replace("] :", "] if %both :").replace("[%M", "[%row")}"""
    ),
    "a bound of another value than the coordinate": (
        f"""{COLUMN}%q = arith.cmpi uge, %r, %N : index
        {STORE.replace("] :", "] if %q :")}"""
    ),
    "one from outside the loop": COLUMN + STORE.replace("] :", "] if %p :"),
    "one of a register that all of a vector have": (
        f"""{COLUMN}%fourth = affine.apply affine_map<(r) -> (r floordiv 4)>(%r)
        %held = memref.load %registers[%fourth] : memref<16xf32, #gpu<space register>>
        %q = arith.cmpf ogt, %held, %x : f32
        %w = arith.cmpi slt, %c, %N : index
        %both = arith.andi %q, %w : i1
        {STORE.replace("] :", "] if %both :")}"""
    ),
}


@pytest.mark.parametrize("body", GUARDS.values(), ids=GUARDS)
def test_a_guard_that_holds_for_the_whole_vector(body: str) -> None:
    assert widths(run(loop(body), PASS)) == [4]


HELD = "memref<16xf32, #gpu<space register>>"
MASKED = f"""%c = affine.apply affine_map<(t, r) -> (t * 16 + r + {{}})>(%t, %r)
    %v = memref.load %registers[%r] : {HELD}
    %q = arith.cmpi {{}}, %c, %{{}} : index
    %w = arith.select %q, %v, %x : f32
    memref.store %w, %registers[%r] : {HELD}"""
ENDS = f"%many = arith.constant {{}} : index\n{MASKED}"


@pytest.mark.parametrize(
    ("body", "width"),
    [
        (MASKED.format(0, "slt", "N"), 4),
        (MASKED.format(4, "uge", "N"), 4),
        (ENDS.format(24, 0, "ult", "many"), 8),
    ],
)
def test_registers_within_a_bound_are_told_apart_by_vectors(body: str, width: int) -> None:
    """One comparison for all of a vector, whose places begin and end at multiples of its width."""
    module = run(loop(body), PASS)
    assert bounds(module) == (16, width)
    assert len(find(module, arith.CmpiOp)) == 1 and len(find(module, arith.SelectOp)) == width


@pytest.mark.parametrize(
    "body",
    [
        MASKED.format(2, "slt", "M"),
        MASKED.format(1, "slt", "N"),
        MASKED.format(0, "sle", "N"),
        MASKED.format(0, "eq", "N"),
        ENDS.format(25, 0, "slt", "many"),
        MASKED.format(0, "slt", "N") + "\ngpu.barrier",
    ],
    ids=["a size of any length", "odd places", "one more", "one place", "an odd end", "a barrier"],
)
def test_registers_whose_bound_parts_vectors_stay(body: str) -> None:
    unchanged(loop(body), PASS)


@pytest.mark.parametrize("end", [8, 24, 504, 512])
def test_what_is_masked_by_vectors_is_what_was(end: int) -> None:
    """With an end between the registers of a thread, of two threads, and behind all."""
    before = f"""%two = arith.constant 2.0 : f32
    scf.for %s = %low to %high step %step {{
      memref.store %two, %registers[%s] : {HELD}
    }}"""
    after = f"""
    scf.for %s = %low to %high step %step {{
      %d = affine.apply affine_map<(t, r) -> (t * 16 + r)>(%t, %s)
      %e = memref.load %registers[%s] : {HELD}
      gpu.store_global %e, %C[%low, %d : index, index] : f32, {C}
    }}"""
    text = loop(ENDS.format(end, 0, "slt", "many"), before=before, attributes="{unroll}" + after)
    for passes in ((), (PASS,)):
        module = run(text, "gpu-legalize-access", *passes, "gpu-linearize-access")
        assert len(find(module, arith.SelectOp)) == (8 if passes else 1)
        out, symbols = np.zeros((1, 512), np.float32), {"M": 1, "N": 512, "P": 1}
        others = [np.zeros_like(out), np.zeros(512, np.float32)]
        Simulator(only(module, KernelOp), [out, *others], symbols).run()
        assert (out == np.where(np.arange(512) < end, 2.0, 1.0)).all()


def test_a_load_is_wide_where_its_own_place_allows() -> None:
    """Of three loads one has the store's columns, one an odd place, one the same element, which is
    loaded once."""
    body = f"""{COLUMN}%odd = affine.apply affine_map<(c) -> (c + 1)>(%c)
    %y = gpu.load_global %b[%c : index] : {B} -> f32
    %z = gpu.load_global %b[%odd : index] : {B} -> f32
    %w = gpu.load_global %b[%N : index] : {B} -> f32
    %s = arith.addf %y, %z : f32
    %u = arith.addf %s, %w : f32
    {STORE.replace("%x", "%u")}"""
    assert widths(run(loop(body), PASS)) == [4] + [1] * 5 + [4]


def test_conditions_are_bytes_of_one_access() -> None:
    """What is loaded and what is stored: of either four neighbours."""
    body = f"""{COLUMN}%y = gpu.load_global %A[%M, %c : index, index] : {CONDITIONS} -> i1
    %s = arith.xori %y, %p : i1
    gpu.store_global %s, %C[%M, %c : index, index] : i1, {CONDITIONS}"""
    assert widths(run(loop(body, align=4, element="i1"), PASS)) == [4, 4]


def test_conditions_beside_registers_are_of_one_access() -> None:
    """A loop that fills registers with what it makes of others and of conditions that it loads."""
    held, before = "memref<16xf32, #gpu<space register>>", "%held = memref.alloca() : {}"
    body = f"""{COLUMN}%y = gpu.load_global %A[%M, %c : index, index] : {CONDITIONS} -> i1
    %h = memref.load %held[%r] : {held}
    %s = arith.select %y, %h, %x : f32
    memref.store %s, %registers[%r] : {held}"""
    text = loop(body, align=4, element="i1", before=before.format(held))
    assert widths(run(text, PASS)) == [4]


@pytest.mark.parametrize("columns", [480, 500, 512, 1000])
def test_the_numbers_are_those_of_the_loop(columns: int) -> None:
    """C = (A + b) · register, guarded, before and after, and with tails."""
    body = f"""{COLUMN}%y = gpu.load_global %A[%t, %c : index, index] : {C} -> f32
    %z = gpu.load_global %b[%c : index] : {B} -> f32
    memref.store %z, %registers[%r] : memref<16xf32, #gpu<space register>>
    %w = memref.load %registers[%r] : memref<16xf32, #gpu<space register>>
    %s = arith.addf %y, %w : f32
    gpu.store_global %s, %C[%t, %c : index, index] : f32, {C}"""
    a = np.random.default_rng(0).normal(size=(20, columns)).astype(np.float32)
    b = np.arange(columns, dtype=np.float32)
    column, thread = np.arange(columns), np.arange(20)
    expected = np.where(column // 16 == thread[:, None], a + b, 0)
    for passes in ((), (PASS,)):
        module = run(loop(body), "gpu-legalize-access", *passes, "gpu-linearize-access")
        out = np.zeros_like(a)
        symbols = {"M": 20, "N": columns, "P": 1}
        Simulator(only(module, KernelOp), [out, a, b], symbols).run()
        assert (out == expected).all()
        assert set(widths(module)) == ({4} if passes else {1})


def test_pack_then_round_rounds_the_vector() -> None:
    body = f"""{COLUMN}%h = arith.truncf %x : f32 to f16
    gpu.store_global %h, %C[%M, %c : index, index] : f16, {C.replace("f32", "f16")}"""
    module = run(loop(body, element="f16"), PASS)
    (rounded,) = find(module, arith.TruncFOp)
    assert (str(rounded.input.type), str(rounded.result.type)) == ("vector<8xf32>", "vector<8xf16>")
    assert rounded.input.owner is only(module, hw.PackOp)


ROUND = """
    %x = arith.constant 1.0 : f32
    %h = arith.truncf %x : f32 to f16
    %g = arith.constant 1.0 : f16
    %v = gpu.pack {} : f16, f16 -> vector<2xf16>
    gpu.store_shared %v, %a : vector<2xf16>"""


def test_pack_then_round_keeps_a_rounded_value_that_is_used_elsewhere() -> None:
    body = ROUND.format("%h, %h") + "\n    gpu.store_shared %h, %a : f16"
    module = run(kernel(body, "%a: i32 = symbol M"), PASS)
    assert [str(op.result.type) for op in find(module, arith.TruncFOp)] == ["f16", "vector<2xf16>"]


def test_pack_then_round_leaves_a_mixed_vector_alone() -> None:
    unchanged(kernel(ROUND.format("%h, %g"), "%a: i32 = symbol M"), PASS)


REGISTERS = "memref<16xf32, #gpu<space register>>"
SHARED = f"%k = arith.constant 0 : index\n%s = memref.load %registers[%k] : {REGISTERS}\n"


def test_registers_that_a_loop_only_reads_may_be_shared() -> None:
    """A row's statistic is one register for all iterations."""
    body = COLUMN + SHARED + STORE.replace("%x", "%s")
    assert widths(run(loop(body), PASS)) == [4]
    written = body + f"\nmemref.store %x, %registers[%r] : {REGISTERS}"
    assert widths(run(loop(written), PASS)) == [1]


# Places that data says ---------------------------------------------------------------------

I32 = "!gpu.global<[N], i32>"
AT_INDICES = f"""{{place}}
    %i = gpu.load_global %b[%q : index] : {I32} -> i32
    %w = arith.index_cast %i : i32 to index
    {COLUMN}%y = gpu.load_global %A[%w, %c : index, index] : {C} -> f32
    gpu.store_global %y, %C[%t, %c : index, index] : f32, {C}"""
PLACES = {
    "of the row": ("(t, r) -> (t)", [1, 4, 4]),
    "of eight columns": ("(t, r) -> (t * 16 + r floordiv 8)", [1, 4, 4]),
    "of two columns": ("(t, r) -> (t * 16 + r floordiv 2)", [1] * 4 + [2, 2, 4]),
    "of each column": ("(t, r) -> (t * 16 + r)", [1] * 8 + [4]),
    "of each column but the row's": ("(t, r) -> (t + r)", [1] * 8 + [4]),
}


def at_indices(access: str) -> str:
    place = f"%q = affine.apply affine_map<{access}>(%t, %r)"
    text = loop(AT_INDICES.format(place=place))
    return text.replace("%b: !gpu.global<[N], f32, align 16>", f"%b: {I32}")


@pytest.mark.parametrize(("access", "wide"), PLACES.values(), ids=PLACES)
def test_a_row_that_data_says_is_a_vector_s_where_all_its_lanes_have_one(
    access: str, wide: list[int]
) -> None:
    text = at_indices(access)
    assert widths(run(text, PASS)) == wide
    columns = np.arange(320)
    formula = access.split("->")[1].replace("floordiv", "//")
    read = eval(formula, {"t": columns // 16, "r": columns % 16})
    a = np.random.default_rng(0).normal(size=(20, 320)).astype(np.float32)
    b = np.random.default_rng(1).integers(0, 20, 320).astype(np.int32)
    expected = np.zeros_like(a)
    expected[columns // 16, columns] = a[b[read], columns]
    for passes in ((), (PASS,)):
        module = run(text, "gpu-legalize-access", *passes, "gpu-linearize-access")
        out = np.zeros_like(a)
        Simulator(only(module, KernelOp), [out, a, b], {"M": 20, "N": 320, "P": 1}).run()
        assert (out == expected).all()


def test_what_lanes_read_of_registers_is_theirs() -> None:
    """A register of all iterations says one row, one of each iteration a row of its own."""
    rows = "memref<16xindex, #gpu<space register>>"
    body = f"""%w = memref.load %rows[{{}}] : {rows}
    {COLUMN}%y = gpu.load_global %A[%w, %c : index, index] : {C} -> f32
    {STORE.replace("%x", "%y")}"""
    before = f"%rows = memref.alloca() : {rows}"
    assert widths(run(loop(body.format("%low"), before=before), PASS)) == [4, 4]
    assert widths(run(loop(body.format("%r"), before=before), PASS)) == [1] * 4 + [4]


def test_a_coordinate_that_a_loop_computes_in_steps_is_its_variable_s() -> None:
    steps = """%d = affine.apply affine_map<(t, r) -> (t * 16 + r)>(%t, %r)
    %c = affine.apply affine_map<(d)[n] -> (d + n * 4)>(%d)[%N]
    """
    assert widths(run(loop(steps + STORE), PASS)) == [4]
    assert widths(run(loop(steps.replace("n * 4", "n") + STORE), PASS)) == [1]
    assert widths(run(loop(steps.replace("d + n", "d * 2 + n") + STORE), PASS)) == [1]
