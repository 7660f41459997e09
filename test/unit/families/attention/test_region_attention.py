"""Attention in a region: what is recognised, what masks bound, and every refusal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir.affine import AffineConstraintKind, AffineExpr, AffineSet

from polyc.affine.expressions import constraint_of, linear_of
from polyc.dialects import region
from polyc.dialects.common.diagnostic import PolycError
from polyc.families.attention.operands import HeadOperand
from polyc.families.attention.queries import ComputedQueries
from polyc.families.attention.recognise import StreamingAttention, find_attention
from polyc.families.attention.visible import Visible
from polyc.families.matmul.recognise import find_contraction
from polyc.test.support.attention_programs import (
    PROGRAMS,
    TO_REGION,
    Attention,
    heads_in_rows,
    heads_of,
    in_rows_of_64,
    parts_of_heads,
    passed,
)
from polyc.test.support.gpu_text import only, printed, run

H64 = ("[H, M, 64]", "[H, N, 64]", "[H, N, 64]")
FULL = Attention(*H64, [])


def found(program: Attention) -> StreamingAttention:
    return find_attention(program.kernel())


# What is recognised ---------------------------------------------------------------------------


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_attention_is_one(name: str) -> None:
    program = PROGRAMS[name]
    attention = found(program)
    assert (attention.m, attention.n) == ("m", "n")
    assert (str(attention.size("m")), str(attention.size("n"))) == ("M", "N")
    assert str(attention.element) == program.element
    assert f", {attention.depth}]" in program.q and f", {attention.width}]" in program.v
    assert [o.name for o in (attention.q, attention.k, attention.v)] == ["q", "k", "v"]
    assert attention.factor == 1.0
    masked = bool(program.masks) or "causal" in program.options or "window" in program.options
    assert attention.hides == masked
    assert not attention.finite_only


@pytest.mark.parametrize("options", ["", " causal"])
@pytest.mark.parametrize("q", ["[6, 64, 64]", "[64, 64, 64]", "[6, 48, 64]"])
def test_as_many_keys_as_features_are_one_kernel(q: str, options: str) -> None:
    """The softmax is along the keys, though the output has an axis of that size."""
    k = "[64, 64, 64]" if q.startswith("[64") else "[6, 64, 64]"
    attention = found(Attention(q, k, k, [], options=options))
    assert attention.size(attention.n).constant() == 64
    assert len({attention.m, attention.n, attention.depth_axis, attention.width_axis}) == 4


def read(side: HeadOperand | ComputedQueries) -> HeadOperand:
    """Queries that are read, and not computed."""
    assert isinstance(side, HeadOperand)
    return side


def sides(attention: StreamingAttention) -> tuple[HeadOperand, ...]:
    return read(attention.q), attention.k, attention.v


def test_axes_of_a_batch_and_of_shared_heads() -> None:
    attention = found(PROGRAMS["shared heads"])
    assert attention.batch == ("b", "i1")
    assert [str(a) for a in read(attention.q).axes] == ["d0", "d1", "m", "r0"]
    for side in (attention.k, attention.v):
        assert str(side.axes[1]) == "(d1 floordiv 4)" and side.along == (2, 3)
    one = found(PROGRAMS["one head of keys"])
    assert [str(a) for a in one.k.axes] == ["d0", "0", "n", "r0"]
    assert one.m == "m" and one.batch == ("b", "i1")


def test_the_queries_may_stand_before_the_heads() -> None:
    """Positions are any dimension of a tensor; a permuted one is read as it lies."""
    kind = "!frontend.tensor<[B, M, H, 64], f16>"
    moved = "!frontend.tensor<[B, H, M, 64], f16>"
    lines = [
        f"  %{x}t = frontend.permute %{x} perm [0, 2, 1, 3] : {kind} -> {moved}"
        for x in ("q", "k", "v")
    ]
    text = f"""frontend.graph @attention(%q: {kind}, %k: {kind}, %v: {kind}) -> {moved} {{
{chr(10).join(lines)}
  %0 = frontend.attention %qt, %kt, %vt {{acc = f32}} : ({moved}, {moved}, {moved}) -> {moved}
  frontend.output %0 : {moved}
}}
"""
    attention = find_attention(only(passed(text, *TO_REGION), region.KernelOp))
    assert str(attention.k.axes[0]) == "d0" and str(attention.k.axes[2]) == "d1"
    assert attention.k.along == (1, 3) and attention.k.axes[3] == attention.depth_axis


@pytest.mark.parametrize("packed", [False, True])
def test_heads_may_follow_one_another_in_a_row(packed: bool) -> None:
    module = passed(heads_in_rows(packed), *TO_REGION)
    attention = find_attention(only(module, region.KernelOp))
    assert [str(a) for a in read(attention.q).axes] == ["d0", "m", attention.depth_axis]
    starts = [str(o.offset) for o in sides(attention)]
    own = "(d1 * 64)"
    rows = [own, f"({own} + (s2 * 64))", f"({own} + (s2 * 128))"] if packed else [own] * 3
    assert starts == rows


@pytest.mark.parametrize(
    ("depth", "width"), [(8, 32), (24, 32), (32, 32), (40, 64), (48, 48), (72, 96), (248, 256)]
)
def test_tiles_hold_whole_steps_of_tensor_cores(depth: int, width: int) -> None:
    """A multiple of 16 is a tile's own width; others are filled up to one of 32."""
    program = Attention(f"[H, M, {depth}]", f"[H, N, {depth}]", "[H, N, 40]", [])
    attention = found(program)
    assert (attention.depth, attention.width) == (depth, 40)
    assert attention.tile_features == (width, 64)


@pytest.mark.parametrize(
    ("depth", "width"),
    [
        *((8, 32), (40, 64), (48, 48), (64, 64), (72, 128), (80, 96), (88, 128), (96, 96)),
        *((112, 128), (120, 128), (128, 128), (136, 192), (144, 192), (152, 192), (160, 160)),
        *((176, 192), (192, 192), (208, 256), (224, 224), (240, 256), (248, 256)),
    ],
)
def test_tma_brings_rows_of_whole_swizzles(depth: int, width: int) -> None:
    """A tile that is wider by a third at most, for heads whose rows are not of whole 64 bytes."""
    attention = found(heads_of(depth))
    wide = attention.in_whole_rows()
    assert wide.tile_features == (width, width)
    assert wide.in_whole_rows().tile_features == wide.tile_features
    assert attention.as_held("tma", (width, width)).tile_features == (width, width)
    assert attention.as_held("cp_async", (width, width)) is attention
    assert attention.as_held("tma", attention.tile_features).tile_features == (
        attention.tile_features
    )


@pytest.mark.parametrize(("features", "width"), [(112, 128), (144, 144), (208, 208)])
def test_wide_heads_keep_their_tiles_beside_a_mask(features: int, width: int) -> None:
    """Threads have no registers for wider ones."""
    assert found(heads_of(features, " causal")).in_whole_rows().tile_features == (width, width)


@pytest.mark.parametrize("packed", [False, True])
def test_a_head_in_a_row_is_a_dimension_where_tma_brings_a_wider_tile(packed: bool) -> None:
    module = passed(heads_in_rows(packed, 112), *TO_REGION)
    attention = find_attention(only(module, region.KernelOp))
    assert [len(side.shape) for side in sides(attention)] == [3, 3, 3]
    wide = attention.in_whole_rows()
    for side in sides(wide):
        assert [str(n) for n in side.shape[2:]] == ["3 * H" if packed else "H", "112"]
        assert str(side.offset) == "0" and len(side.axes) == 4


def test_a_part_of_a_row_stays_in_its_own_tile() -> None:
    """A head of 112 of the 128 features of a row has others beside it."""
    module = passed(parts_of_heads(128, 112), *TO_REGION)
    attention = find_attention(only(module, region.KernelOp))
    assert attention.in_whole_rows() is attention


@pytest.mark.parametrize("packed", [False, True])
def test_a_head_in_a_row_that_does_not_fill_its_tile_is_a_dimension(packed: bool) -> None:
    """Beyond a dimension are zeros, and beyond a head in a row is the next one."""
    module = passed(heads_in_rows(packed, 40), *TO_REGION)
    attention = find_attention(only(module, region.KernelOp))
    rows = "3 * H" if packed else "H"
    places = ("d1", "(d1 + s2)", "(d1 + (s2 * 2))") if packed else ("d1",) * 3
    for side, place in zip(sides(attention), places, strict=True):
        assert [str(size) for size in side.shape] == ["B", "M", rows, "40"]
        assert str(side.axes[2]) == place and str(side.offset) == "0"
        assert side.along == (1, 3)


def test_parts_of_heads_are_those_that_make_up_a_row() -> None:
    attention = find_attention(only(passed(parts_of_heads(80, 40), *TO_REGION), region.KernelOp))
    for side in sides(attention):
        assert [str(size) for size in side.shape] == ["H", "M", "2", "40"]
        assert str(side.axes[2]) == "0"


REST = "heads of {} have 40 features, no multiple of 16, and are not whole parts of its rows of 64"


@pytest.mark.parametrize(("side", "why"), [("q", REST), ("k", REST), ("v", None)])
def test_what_stands_beside_a_head_is_not_summed_with_it(side: str, why: str | None) -> None:
    """Columns of V that are none of the head are of columns that no output has."""
    text = in_rows_of_64(side)
    if why is None:
        attention = find_attention(only(run(text), region.KernelOp))
        assert [str(size) for size in attention.v.shape] == ["H", "N", "64"]
    else:
        assert refusal(text) == why.format(side)


def test_heads_that_start_within_a_vector_are_refused() -> None:
    text = printed(passed(heads_in_rows(False), *TO_REGION))
    text = text.replace("((d2 * 64) + d3)", "((d2 * 60) + d3)")
    assert refusal(text) == "heads of q do not start at multiples of 8"


@pytest.mark.parametrize(
    ("options", "scale"),
    [("", 0.125), (" scale 1.0", 1.0), (" scale 3.0", 3.0), (" scale -1.0", None)],
)
def test_a_positive_scale_is_known(options: str, scale: float | None) -> None:
    score = found(Attention(*H64, [], options)).score
    assert score.scale == scale and not score.gates and score.visible.everywhere


def test_masks_are_parted_from_the_score() -> None:
    attention = found(Attention(*H64, [], " causal", ["[H, M, N], f32", "[H, 1, N], f16"]))
    score = attention.score
    assert score.scale is None and len(score.gates) == 2
    assert [str(e) for e in score.visible.end_keys(64)] == ["(d0 + 64)"]
    assert score.visible.grows
    assert isinstance(score.value.owner, region.BinaryOp)


# Bounds of masks ------------------------------------------------------------------------------

SMALL = st.integers(-3, 3)
QUERY, KEY, SIZE = AffineExpr.dimension(0), AffineExpr.dimension(1), AffineExpr.symbol(0)


@st.composite
def masks(draw: st.DrawFn) -> Visible:
    """Up to three constraints on positions and one size, some of them equalities."""
    rows = [
        constraint_of(
            linear_of(
                QUERY * draw(SMALL)
                + KEY * draw(SMALL)
                + SIZE * draw(SMALL)
                + draw(st.integers(-9, 9))
            ),
            draw(st.booleans()) and draw(st.booleans()),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    return Visible(AffineSet(2, 1, tuple(rows)))


def value(expr: AffineExpr, query: int, key: int, size: int) -> int:
    return expr.eval([query, key], [size])


@given(masks(), st.integers(1, 5), st.integers(1, 5), st.integers(0, 9), st.integers(0, 9), SMALL)
def test_bounds_hold_every_visible_key(
    visible: Visible, queries: int, keys: int, q0: int, k0: int, size: int
) -> None:
    """No visible pair is outside of the bounds; those of one query are the mask itself."""
    size = abs(size)
    ends = [value(e, q0, 0, size) for e in visible.end_keys(queries)]
    firsts = [value(e, q0, 0, size) for e in visible.first_keys(queries)]
    slack = visible.slack(queries, keys)
    assert slack is not None
    whole = all(value(e, q0, k0, size) >= 0 for e in slack)
    for query in range(q0, q0 + queries):
        mine = [value(e, query, 0, size) for e in visible.end_keys(1)]
        from_on = [value(e, query, 0, size) for e in visible.first_keys(1)]
        for key in range(-20, 40):
            seen = holds(visible.points, query, key, size)
            if seen:
                assert all(key < e for e in ends) and all(key >= f for f in firsts)
                assert all(key < e for e in mine) and all(key >= f for f in from_on)
            if k0 <= key < k0 + keys and whole:
                assert seen


def holds(points: AffineSet, query: int, key: int, size: int) -> bool:
    found = [(row.lhs - row.rhs).eval([query, key], [size]) for row in points.constraints]
    return all(
        x == 0 if row.kind == AffineConstraintKind.eq else x >= 0
        for x, row in zip(found, points.constraints, strict=True)
    )


def test_an_irregular_mask_has_no_slack_and_is_not_bounded() -> None:
    """Of blocks of 8 positions it is not known where they cut a tile."""
    blocks = constraint_of(linear_of(QUERY // 8 - KEY // 8), False)
    visible = Visible(AffineSet(2, 0, (blocks,)))
    assert visible.slack(16, 16) is None
    assert visible.end_keys(16) == visible.first_keys(16) == () and not visible.grows


# Refusals -------------------------------------------------------------------------------------


def refusal(text: str) -> str:
    """Why the region of a text is no attention."""
    kernel = only(run(text), region.KernelOp)
    with pytest.raises(PolycError) as caught:
        find_attention(kernel)
    assert caught.value.kind == "UnsupportedProgram" and caught.value.place is not None
    head = "region @attention has no schedule as attention: "
    assert caught.value.message.startswith(head)
    return caught.value.message.removeprefix(head)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (
            Attention("[H, M, 20]", "[H, N, 20]", "[H, N, 64]", []),
            "a head has 20 features, no multiple of 8",
        ),
        (
            Attention("[H, M, 64]", "[H, N, 64]", "[H, N, 4]", []),
            "a head has 4 features, no multiple of 8",
        ),
    ],
)
def test_a_program_is_refused(program: Attention, why: str) -> None:
    assert refusal(printed(program.whole())) == why


def test_heads_of_unknown_size_are_refused() -> None:
    text = printed(FULL.region()).replace("64", "H")
    assert refusal(text) == "the size H of a head is known at launch only"


def test_other_regions_are_refused() -> None:
    """Each of the two families says so of the other's regions."""
    kernel = FULL.kernel()
    with pytest.raises(PolycError, match="it has a softmax"):
        find_contraction(kernel)
    kind, value = "!region.memref<[M, N], f16, align 16>", "!region.val<[m: M, n: N], f16>"
    matrix = f"""
region.kernel @attention iters [m: M, n: N] ins(%A: {kind}) outs(C: {kind} gmem) {{
  %a = region.read %A affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : {kind} -> {value}
  region.yield %a : {value}
}}
"""
    assert refusal(matrix) == "it has 0 softmaxes (region.reduce_together) and not one"


CAUSAL = Attention(*H64, [], " causal")

CHANGES = {
    "a guard that is stricter": (
        "(((d1 * -1) + d3) >= 0)> else 0.0",
        "(((d1 * -1) + d3) - 1 >= 0)> else 0.0",
        "V is read under a guard that allows less than the mask",
    ),
    "a guard on the features": (
        "(((d1 * -1) + d3) >= 0)> else 0.0",
        "(((d1 * -1) + d3) >= 0, d2 >= 0)> else 0.0",
        None,
    ),
    "a fill that is not 0": (
        "(((d1 * -1) + d3) >= 0)> else 0.0",
        "(((d1 * -1) + d3) >= 0)> else 1.0",
        "V is not 0 where its guard fails",
    ),
    "keys backwards": (
        "region.read %k affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)>",
        "region.read %k affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, s2 - d1 - 1, d2)>",
        "it reads k at ((s2 + (d1 * -1)) + -1), not along an axis",
    ),
    "keys from the second on": (
        "region.read %k affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)> :",
        "region.read %k affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1 + 1, d2)> "
        "where affine_set<(d0, d1, d2)[s0, s1, s2] : (s2 - d1 - 2 >= 0)> else 0.0 :",
        "a factor of its scores is read under a guard",
    ),
}


@pytest.mark.parametrize(("said", "changed", "why"), CHANGES.values(), ids=CHANGES)
def test_a_region_is_refused(said: str, changed: str, why: str | None) -> None:
    text = printed(CAUSAL.region())
    assert text.count(said) == 1
    text = text.replace(said, changed)
    if why is None:
        assert find_attention(only(run(text), region.KernelOp)).hides
    else:
        assert refusal(text) == why


def test_weights_of_another_type_are_refused() -> None:
    text = printed(FULL.region())
    rounded = "!region.val<[h: H, m: M, n: N], f16>"
    assert text.count(rounded) == 2
    text = text.replace(rounded, rounded.replace("f16", "bf16"))
    why = "its weights are bf16 and V is f16, and tensor cores take operands of one type"
    assert refusal(text) == why
