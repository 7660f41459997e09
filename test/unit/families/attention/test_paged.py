"""Pages of keys and values, as a region's gathers show them, and every refusal."""

from __future__ import annotations

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.region import KernelOp
from polyc.families.attention.recognise import StreamingAttention, find_attention
from polyc.families.attention.shared import SharedKeys
from polyc.test.support.attention_programs import TO_REGION, passed
from polyc.test.support.gpu_text import only, printed, run
from polyc.test.support.paged_programs import Paged


def found(program: Paged) -> StreamingAttention:
    return find_attention(only(passed(program.text(), *TO_REGION), KernelOp))


@pytest.mark.parametrize(
    ("program", "keys", "dimension", "sizes"),
    [
        (Paged(16), 16, 0, "[P, 16, 2, 64]"),
        (Paged(64, tokens=False, index="i64", mode="from_end fill 0.0"), 64, 0, "[P, 2, 64, 64]"),
        (Paged(2, lengths="lt"), 2, 0, "[P, 2, 2, 64]"),
        (Paged(None), 1, 0, "[P, 1, 2, 64]"),
        (Paged(1), 1, 0, "[P, 1, 1, 2, 64]"),
        # Heads that tiles are wider than have a dimension of their own all the same.
        (Paged(32, features=40), 32, 0, "[P, 32, 2, 40]"),
    ],
)
def test_keys_and_values_lie_in_pages(
    program: Paged, keys: int, dimension: int, sizes: str
) -> None:
    attention = found(program)
    assert [(p.keys, p.dimension) for p in attention.pages] == [(keys, dimension)] * 2
    for side in (attention.k, attention.v):
        assert f"[{', '.join(map(str, side.shape))}]" == sizes
        assert side.axes[side.along[0]] == attention.n
    assert attention.shared == SharedKeys("i1", 2)


OWN = """
frontend.graph @attention(%q: !frontend.tensor<[B, 4, 1, 64], f16>,
    %k: !frontend.tensor<[P, 16, 64], f16>, %v: !frontend.tensor<[P, 16, 64], f16>,
    %table: !frontend.tensor<[B, H, J], i32>) -> (O: !frontend.tensor<[B, 4, 1, 64], f16>) {
  %0 = frontend.gather %k, %table axis 0 clamp
      : (!frontend.tensor<[P, 16, 64], f16>, !frontend.tensor<[B, H, J], i32>)
      -> !frontend.tensor<[B, H, J, 16, 64], f16>
  %1 = frontend.reshape %0
      : !frontend.tensor<[B, H, J, 16, 64], f16> -> !frontend.tensor<[B, H, J * 16, 64], f16>
  %2 = frontend.gather %v, %table axis 0 clamp
      : (!frontend.tensor<[P, 16, 64], f16>, !frontend.tensor<[B, H, J], i32>)
      -> !frontend.tensor<[B, H, J, 16, 64], f16>
  %3 = frontend.reshape %2
      : !frontend.tensor<[B, H, J, 16, 64], f16> -> !frontend.tensor<[B, H, J * 16, 64], f16>
  %o = frontend.attention %q, %1, %3 {acc = f32}
      : (!frontend.tensor<[B, 4, 1, 64], f16>, !frontend.tensor<[B, H, J * 16, 64], f16>,
         !frontend.tensor<[B, H, J * 16, 64], f16>) -> !frontend.tensor<[B, 4, 1, 64], f16>
  frontend.output %o : !frontend.tensor<[B, 4, 1, 64], f16>
}
"""


@pytest.mark.parametrize(("heads", "shared"), [(2, SharedKeys("i1", 2)), (4, None)])
def test_heads_that_have_a_table_of_their_own_share_it(
    heads: int, shared: SharedKeys | None
) -> None:
    module = passed(OWN.replace("[B, H, J", f"[B, {heads}, J"), *TO_REGION)
    assert find_attention(only(module, KernelOp)).shared == shared


@pytest.mark.parametrize(
    ("keys", "pages", "step"),
    [(16, 32, 32), (48, 32, 16), (48, 64, 48), (64, 32, 32), (8, 64, 64), (4, 64, 32), (1, 64, 16)],
)
def test_steps_are_few_pages_or_parts_of_one(keys: int, pages: int, step: int) -> None:
    attention = found(Paged(keys))
    assert attention.step(pages) == step and attention.fits_pages(step)


CHANGES = {
    "tokens in another order": (
        "(d1 + ((d1 floordiv 16) * -16))",
        "(((d1 floordiv 16) * 16) - d1 + 15)",
        "a factor is gathered by pages, in which its keys lie at",
    ),
    "pages that change within one": (
        "(d0, (d1 floordiv 16))> : !region.memref<[B, J], i32",
        "(d0, ((d1 + 8) floordiv 32))> : !region.memref<[B, J], i32",
        "the places of a factor differ between the 16 keys of a page",
    ),
    "a number where no page is": (
        "along [g0] clamp",
        "along [g0] fill 1.0",
        "a factor is gathered, and is 1.0 and not 0 where no page is",
    ),
    "pages from the last one": (
        "-> (d0, (d1 + ((d1 floordiv 16) * -16))",
        "-> (s1 - d0 - 1, (d1 + ((d1 floordiv 16) * -16))",
        "not along an axis",
    ),
}


@pytest.mark.parametrize(("said", "changed", "why"), CHANGES.values(), ids=CHANGES)
def test_what_is_no_page_is_refused(said: str, changed: str, why: str) -> None:
    text = printed(passed(Paged(16).text(), *TO_REGION))
    assert said in text
    with pytest.raises(PolycError) as error:
        find_attention(only(run(text.replace(said, changed)), KernelOp))
    assert why in str(error.value)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (Paged(24), "pages of 24 keys, which are no multiple of 16 and no part"),
        (Paged(16, mode="fill -1.0"), "is -1.0 and not 0 where no page is"),
    ],
)
def test_a_remark_says_what_is_stored(
    program: Paged, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    passed(program.text(), *TO_REGION)
    said = capsys.readouterr().err
    assert said.count("remark[GatherStored]") == 1 and why in said
