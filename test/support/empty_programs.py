"""One program of each ``frontend`` op, as text with its sizes left open, for sizes of 0.

``PROGRAMS`` has the signature and the body of each; ``{M}`` stands for a size, which is the symbol
M or any other text.  ``sizes_of`` are the sizes that a program has, and ``text`` fills them in.
"""

# ruff: noqa: E501

from __future__ import annotations

import re
from collections.abc import Mapping

PROGRAMS: Mapping[str, str] = {
    "relu": """(%x: <[{M}, {N}], f16>) -> (Y: <[{M}, {N}], f16>) {
  %0 = elementwise relu %x : <[{M}, {N}], f16>
  output %0 : <[{M}, {N}], f16>""",
    "vector": """(%x: <[{M}], f32>) -> (Y: <[{M}], f32>) {
  %0 = elementwise tanh %x : <[{M}], f32>
  output %0 : <[{M}], f32>""",
    "rank_three": """(%x: <[{B}, {M}, {N}], f32>) -> (Y: <[{B}, {M}, {N}], f32>) {
  %0 = elementwise silu %x : <[{B}, {M}, {N}], f32>
  output %0 : <[{B}, {M}, {N}], f32>""",
    "copy": """(%x: <[{M}, {N}], f16>) -> (Y: <[{M}, {N}], f16>) {
  output %x : <[{M}, {N}], f16>""",
    "broadcast": """(%x: <[{M}, {N}], f32>, %b: <[{N}], f32>, %c: <[{M}, 1], f32>, %s: <[], f32>)
    -> (Y: <[{M}, {N}], f32>) {
  %0 = elementwise add %x, %b : (<[{M}, {N}], f32>, <[{N}], f32>) -> <[{M}, {N}], f32>
  %1 = elementwise mul %0, %c : (<[{M}, {N}], f32>, <[{M}, 1], f32>) -> <[{M}, {N}], f32>
  %2 = elementwise max %1, %s : (<[{M}, {N}], f32>, <[], f32>) -> <[{M}, {N}], f32>
  output %2 : <[{M}, {N}], f32>""",
    "outer": """(%a: <[{M}, 1], f32>, %b: <[1, {N}], f32>) -> (Y: <[{M}, {N}], f32>) {
  %0 = elementwise sub %a, %b : (<[{M}, 1], f32>, <[1, {N}], f32>) -> <[{M}, {N}], f32>
  output %0 : <[{M}, {N}], f32>""",
    "compare_select": """(%x: <[{M}, {N}], f32>, %y: <[{M}, {N}], f32>)
    -> (Y: <[{M}, {N}], f32>, C: <[{M}, {N}], i1>) {
  %0 = compare lt %x, %y : (<[{M}, {N}], f32>, <[{M}, {N}], f32>) -> <[{M}, {N}], i1>
  %1 = select %0, %x, %y : (<[{M}, {N}], i1>, <[{M}, {N}], f32>, <[{M}, {N}], f32>)
      -> <[{M}, {N}], f32>
  output %1, %0 : <[{M}, {N}], f32>, <[{M}, {N}], i1>""",
    "cast": """(%x: <[{M}, {N}], f32>) -> (Y: <[{M}, {N}], bf16>) {
  %0 = cast %x : <[{M}, {N}], f32> -> <[{M}, {N}], f16>
  %1 = cast %0 : <[{M}, {N}], f16> -> <[{M}, {N}], bf16>
  output %1 : <[{M}, {N}], bf16>""",
    "constant": """(%x: <[{M}], f32>) -> (Y: <[{M}], f32>) {
  %c = constant 2.0 : <[], f32>
  %0 = elementwise mul %x, %c : (<[{M}], f32>, <[], f32>) -> <[{M}], f32>
  output %0 : <[{M}], f32>""",
    "gemm": """(%a: <[{M}, {K}], f16>, %b: <[{K}, {N}], f16>) -> (Y: <[{M}, {N}], f16>) {
  %0 = gemm %a, %b {acc = f32} : (<[{M}, {K}], f16>, <[{K}, {N}], f16>) -> <[{M}, {N}], f16>
  output %0 : <[{M}, {N}], f16>""",
    "gemm_bias": """(%a: <[{M}, {K}], f16>, %b: <[{N}, {K}], f16>, %c: <[{N}], f16>)
    -> (Y: <[{M}, {N}], f32>) {
  %0 = gemm %a, %b {acc = f32, transpose_b} : (<[{M}, {K}], f16>, <[{N}, {K}], f16>)
      -> <[{M}, {N}], f16>
  %1 = elementwise add %0, %c : (<[{M}, {N}], f16>, <[{N}], f16>) -> <[{M}, {N}], f16>
  %2 = cast %1 : <[{M}, {N}], f16> -> <[{M}, {N}], f32>
  output %2 : <[{M}, {N}], f32>""",
    "gemm_f32": """(%a: <[{M}, {K}], f32>, %b: <[{K}, {N}], f32>) -> (Y: <[{M}, {N}], f32>) {
  %0 = gemm %a, %b {acc = f32} : (<[{M}, {K}], f32>, <[{K}, {N}], f32>) -> <[{M}, {N}], f32>
  output %0 : <[{M}, {N}], f32>""",
    "gemm_batch": """(%a: <[{B}, {M}, {K}], bf16>, %b: <[{K}, {N}], bf16>)
    -> (Y: <[{B}, {M}, {N}], bf16>) {
  %0 = gemm %a, %b {acc = f32} : (<[{B}, {M}, {K}], bf16>, <[{K}, {N}], bf16>)
      -> <[{B}, {M}, {N}], bf16>
  output %0 : <[{B}, {M}, {N}], bf16>""",
    "mlp": """(%x: <[{M}, {K}], f16>, %v: <[{K}, {L}], f16>, %w: <[{L}, {N}], f16>)
    -> (Y: <[{M}, {N}], f16>) {
  %0 = gemm %x, %v {acc = f32} : (<[{M}, {K}], f16>, <[{K}, {L}], f16>) -> <[{M}, {L}], f16>
  %1 = elementwise relu %0 : <[{M}, {L}], f16>
  %2 = gemm %1, %w {acc = f32} : (<[{M}, {L}], f16>, <[{L}, {N}], f16>) -> <[{M}, {N}], f16>
  output %2 : <[{M}, {N}], f16>""",
    "conv_nhwc": """(%x: <[{B}, 5, 6, {C}], f16>, %w: <[{F}, 3, 3, {C}], f16>)
    -> (Y: <[{B}, 5, 6, {F}], f16>) {
  %0 = conv2d nhwc %x, %w stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32}
      : (<[{B}, 5, 6, {C}], f16>, <[{F}, 3, 3, {C}], f16>) -> <[{B}, 5, 6, {F}], f16>
  output %0 : <[{B}, 5, 6, {F}], f16>""",
    "conv_nchw": """(%x: <[{B}, {C}, {H}, {W}], f16>, %w: <[{F}, {C}, 3, 2], f16>)
    -> (Y: <[{B}, {F}, {H} + 2, {W} + 1], f16>) {
  %0 = conv2d nchw %x, %w stride [1, 1] padding [2, 2, 1, 1] dilation [1, 1] groups 1 {acc = f32}
      : (<[{B}, {C}, {H}, {W}], f16>, <[{F}, {C}, 3, 2], f16>)
      -> <[{B}, {F}, {H} + 2, {W} + 1], f16>
  output %0 : <[{B}, {F}, {H} + 2, {W} + 1], f16>""",
    "conv_strided": """(%x: <[{B}, {H}, 4, {C}], f32>, %w: <[{F}, 1, 1, {C}], f32>)
    -> (Y: <[{B}, ({H} + 1) floordiv 2, 2, {F}], f32>) {
  %0 = conv2d nhwc %x, %w stride [2, 2] padding [0, 0, 0, 0] dilation [1, 1] groups 1 {acc = f32}
      : (<[{B}, {H}, 4, {C}], f32>, <[{F}, 1, 1, {C}], f32>)
      -> <[{B}, ({H} + 1) floordiv 2, 2, {F}], f32>
  output %0 : <[{B}, ({H} + 1) floordiv 2, 2, {F}], f32>""",
    "conv_depthwise": """(%x: <[{B}, {C}, 4, 4], f32>, %w: <[{C}, 1, 3, 3], f32>)
    -> (Y: <[{B}, {C}, 2, 2], f32>) {
  %0 = conv2d nchw %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups {C} {acc = f32}
      : (<[{B}, {C}, 4, 4], f32>, <[{C}, 1, 3, 3], f32>) -> <[{B}, {C}, 2, 2], f32>
  output %0 : <[{B}, {C}, 2, 2], f32>""",
    "attention": """(%q: <[{B}, {H}, {M}, {D}], f16>, %k: <[{B}, {H}, {N}, {D}], f16>,
    %v: <[{B}, {H}, {N}, {E}], f16>) -> (O: <[{B}, {H}, {M}, {E}], f16>, L: <[{B}, {H}, {M}], f32>) {
  %0, %1 = attention %q, %k, %v scale 0.5 {acc = f32}
      : (<[{B}, {H}, {M}, {D}], f16>, <[{B}, {H}, {N}, {D}], f16>, <[{B}, {H}, {N}, {E}], f16>)
      -> (<[{B}, {H}, {M}, {E}], f16>, <[{B}, {H}, {M}], f32>)
  output %0, %1 : <[{B}, {H}, {M}, {E}], f16>, <[{B}, {H}, {M}], f32>""",
    "attention_64": """(%q: <[{B}, {H}, {M}, 64], f16>, %k: <[{B}, {H}, {N}, 64], f16>,
    %v: <[{B}, {H}, {N}, 64], f16>) -> (O: <[{B}, {H}, {M}, 64], f16>) {
  %0 = attention %q, %k, %v causal {acc = f32}
      : (<[{B}, {H}, {M}, 64], f16>, <[{B}, {H}, {N}, 64], f16>, <[{B}, {H}, {N}, 64], f16>)
      -> <[{B}, {H}, {M}, 64], f16>
  output %0 : <[{B}, {H}, {M}, 64], f16>""",
    "attention_mask": """(%q: <[2, {M}, {D}], f32>, %k: <[1, {N}, {D}], f32>, %v: <[1, {N}, {D}], f32>,
    %m: <[{M}, {N}], i1>) -> (O: <[2, {M}, {D}], f32>) {
  %0 = attention %q, %k, %v mask %m scale 0.5 window [1, 2] {acc = f32}
      : (<[2, {M}, {D}], f32>, <[1, {N}, {D}], f32>, <[1, {N}, {D}], f32>, <[{M}, {N}], i1>)
      -> <[2, {M}, {D}], f32>
  output %0 : <[2, {M}, {D}], f32>""",
    "attention_groups": """(%q: <[2, 4 * {H}, {M}, 8], f16>, %k: <[2, {H}, {N}, 8], f16>,
    %v: <[2, {H}, {N}, {E}], f16>) -> (O: <[2, 4 * {H}, {M}, {E}], f16>) {
  %0 = attention %q, %k, %v {acc = f32}
      : (<[2, 4 * {H}, {M}, 8], f16>, <[2, {H}, {N}, 8], f16>, <[2, {H}, {N}, {E}], f16>)
      -> <[2, 4 * {H}, {M}, {E}], f16>
  output %0 : <[2, 4 * {H}, {M}, {E}], f16>""",
    "sum": """(%x: <[{M}, {N}], f32>) -> (Y: <[{M}], f32>) {
  %0 = reduce sum %x axes [1] : <[{M}, {N}], f32> -> <[{M}], f32>
  output %0 : <[{M}], f32>""",
    "max_columns": """(%x: <[{M}, {N}], f16>) -> (Y: <[{N}], f16>) {
  %0 = reduce max %x axes [0] : <[{M}, {N}], f16> -> <[{N}], f16>
  output %0 : <[{N}], f16>""",
    "min_kept": """(%x: <[{M}, {N}], f32>) -> (Y: <[{M}, 1], f32>) {
  %0 = reduce min %x axes [1] keepdims : <[{M}, {N}], f32> -> <[{M}, 1], f32>
  output %0 : <[{M}, 1], f32>""",
    "mean": """(%x: <[{M}, {N}], f32>) -> (Y: <[{M}], f32>) {
  %0 = reduce mean %x axes [1] : <[{M}, {N}], f32> -> <[{M}], f32>
  output %0 : <[{M}], f32>""",
    "sum_all": """(%x: <[{M}, {N}], f32>) -> (Y: <[], f32>) {
  %0 = reduce sum %x axes [0, 1] : <[{M}, {N}], f32> -> <[], f32>
  output %0 : <[], f32>""",
    "sum_middle": """(%x: <[{B}, {M}, {N}], f32>) -> (Y: <[{B}, {N}], f32>) {
  %0 = reduce sum %x axes [1] : <[{B}, {M}, {N}], f32> -> <[{B}, {N}], f32>
  output %0 : <[{B}, {N}], f32>""",
    "sum_of_vector": """(%x: <[{M}], f32>) -> (Y: <[], f32>) {
  %0 = reduce sum %x axes [0] : <[{M}], f32> -> <[], f32>
  output %0 : <[], f32>""",
    "centre": """(%x: <[{M}, {N}], f32>) -> (Y: <[{M}, {N}], f32>, S: <[{M}, 1], f32>) {
  %0 = reduce sum %x axes [1] keepdims : <[{M}, {N}], f32> -> <[{M}, 1], f32>
  %1 = elementwise sub %x, %0 : (<[{M}, {N}], f32>, <[{M}, 1], f32>) -> <[{M}, {N}], f32>
  output %1, %0 : <[{M}, {N}], f32>, <[{M}, 1], f32>""",
    "softmax": """(%x: <[{M}, {N}], f16>) -> (Y: <[{M}, {N}], f16>) {
  %0 = softmax %x axes [1] : <[{M}, {N}], f16>
  output %0 : <[{M}, {N}], f16>""",
    "softmax_columns": """(%x: <[{M}, {N}], f32>) -> (Y: <[{M}, {N}], f32>) {
  %0 = softmax %x axes [0] : <[{M}, {N}], f32>
  output %0 : <[{M}, {N}], f32>""",
    "log_softmax": """(%x: <[{B}, {M}, {N}], f32>) -> (Y: <[{B}, {M}, {N}], f32>) {
  %0 = log_softmax %x axes [1, 2] : <[{B}, {M}, {N}], f32>
  output %0 : <[{B}, {M}, {N}], f32>""",
    "layer_norm": """(%x: <[{M}, {N}], f16>, %w: <[{N}], f16>, %b: <[{N}], f16>)
    -> (Y: <[{M}, {N}], f16>) {
  %0 = layer_norm %x weight %w bias %b axes [1] eps 1.0e-05 : (<[{M}, {N}], f16>, <[{N}], f16>, <[{N}], f16>)
      -> <[{M}, {N}], f16>
  output %0 : <[{M}, {N}], f16>""",
    "rms_norm": """(%x: <[{M}, {N}], f32>, %w: <[{N}], f32>) -> (Y: <[{M}, {N}], f32>) {
  %0 = rms_norm %x weight %w axes [1] eps 1.0e-05 : (<[{M}, {N}], f32>, <[{N}], f32>)
      -> <[{M}, {N}], f32>
  output %0 : <[{M}, {N}], f32>""",
    "reshape_merge": """(%x: <[{M}, {N}, 4], f32>) -> (Y: <[{M}, 4 * {N}], f32>) {
  %0 = reshape %x : <[{M}, {N}, 4], f32> -> <[{M}, 4 * {N}], f32>
  %1 = elementwise exp %0 : <[{M}, 4 * {N}], f32>
  output %1 : <[{M}, 4 * {N}], f32>""",
    "reshape_split": """(%x: <[{M}, 8 * {N}], f32>) -> (Y: <[{M}, {N}, 8], f32>) {
  %0 = reshape %x : <[{M}, 8 * {N}], f32> -> <[{M}, {N}, 8], f32>
  output %0 : <[{M}, {N}, 8], f32>""",
    "reshape_view": """(%x: <[{M}, {N}], f32>) -> (Y: <[{N}, {M}], f32>) {
  %0 = elementwise exp %x : <[{M}, {N}], f32>
  %1 = reshape %0 : <[{M}, {N}], f32> -> <[{N}, {M}], f32>
  %2 = elementwise neg %1 : <[{N}, {M}], f32>
  output %2 : <[{N}, {M}], f32>""",
    "reshape_flat": """(%x: <[{M}, {N}], f32>) -> (Y: <[{M} * {N}], f32>) {
  %0 = reshape %x : <[{M}, {N}], f32> -> <[{M} * {N}], f32>
  %1 = elementwise exp %0 : <[{M} * {N}], f32>
  output %1 : <[{M} * {N}], f32>""",
    "permute": """(%x: <[{B}, {M}, {N}], f16>) -> (Y: <[{N}, {B}, {M}], f16>) {
  %0 = permute %x perm [2, 0, 1] : <[{B}, {M}, {N}], f16> -> <[{N}, {B}, {M}], f16>
  output %0 : <[{N}, {B}, {M}], f16>""",
    "expand": """(%x: <[{N}], f32>) -> (Y: <[{M}, {N}], f32>) {
  %0 = expand %x dims [1] : <[{N}], f32> -> <[{M}, {N}], f32>
  output %0 : <[{M}, {N}], f32>""",
    "expand_scalar": """(%x: <[], f32>, %y: <[{M}, {N}], f32>) -> (Y: <[{M}, {N}], f32>) {
  %0 = expand %x dims [] : <[], f32> -> <[{M}, {N}], f32>
  %1 = elementwise add %0, %y : (<[{M}, {N}], f32>, <[{M}, {N}], f32>) -> <[{M}, {N}], f32>
  output %1 : <[{M}, {N}], f32>""",
    "pad": """(%x: <[{M}, {N}], f32>) -> (Y: <[{M} + 3, {N} + 2], f32>) {
  %0 = pad %x low [1, 0] high [2, 2] value 1.5 : <[{M}, {N}], f32> -> <[{M} + 3, {N} + 2], f32>
  output %0 : <[{M} + 3, {N} + 2], f32>""",
    "pad_by_size": """(%x: <[{M}, {N}], f32>) -> (Y: <[{M} + {P}, {N}], f32>) {
  %0 = pad %x low [{P}, 0] high [0, 0] value 0.0 : <[{M}, {N}], f32> -> <[{M} + {P}, {N}], f32>
  %1 = elementwise exp %0 : <[{M} + {P}, {N}], f32>
  output %1 : <[{M} + {P}, {N}], f32>""",
    "pad_computed": """(%x: <[{M}], f32>) -> (Y: <[{M} + 2], f32>) {
  %0 = elementwise exp %x : <[{M}], f32>
  %1 = pad %0 low [1] high [1] value -inf : <[{M}], f32> -> <[{M} + 2], f32>
  output %1 : <[{M} + 2], f32>""",
    "slice": """(%x: <[{M} + 4, {N}], f32>) -> (Y: <[{M}, {N}], f32>) {
  %0 = slice %x [2:{M} + 2, 0:{N}] : <[{M} + 4, {N}], f32> -> <[{M}, {N}], f32>
  output %0 : <[{M}, {N}], f32>""",
    "slice_steps": """(%x: <[{M}, {N}], f32>) -> (Y: <[({M} + 1) floordiv 2, {N}], f32>) {
  %0 = slice %x [0:{M}:2, 0:{N}] : <[{M}, {N}], f32> -> <[({M} + 1) floordiv 2, {N}], f32>
  %1 = elementwise neg %0 : <[({M} + 1) floordiv 2, {N}], f32>
  output %1 : <[({M} + 1) floordiv 2, {N}], f32>""",
    "slice_to_nothing": """(%x: <[{M}, {N}], f32>) -> (Y: <[0, {N}], f32>, S: <[{N}], f32>) {
  %0 = slice %x [{M}:{M}, 0:{N}] : <[{M}, {N}], f32> -> <[0, {N}], f32>
  %1 = reduce max %0 axes [0] : <[0, {N}], f32> -> <[{N}], f32>
  output %0, %1 : <[0, {N}], f32>, <[{N}], f32>""",
    "conditions": """(%x: <[{M}, {N}], i1>) -> (Y: <[{N}, {M}], i1>, Z: <[{M}, {N}], f32>) {
  %0 = permute %x perm [1, 0] : <[{M}, {N}], i1> -> <[{N}, {M}], i1>
  %1 = cast %x : <[{M}, {N}], i1> -> <[{M}, {N}], f32>
  output %0, %1 : <[{N}, {M}], i1>, <[{M}, {N}], f32>""",
    "concat": """(%a: <[{M}, {N}], f16>, %b: <[{P}, {N}], f16>, %c: <[2, {N}], f16>)
    -> (Y: <[{M} + {P} + 2, {N}], f16>) {
  %0 = concat %a, %b, %c axis 0 : (<[{M}, {N}], f16>, <[{P}, {N}], f16>, <[2, {N}], f16>)
      -> <[{M} + {P} + 2, {N}], f16>
  output %0 : <[{M} + {P} + 2, {N}], f16>""",
    "concat_computed": """(%a: <[{M}, {N}], f32>, %b: <[{M}, {P}], f32>)
    -> (Y: <[{M}, {N} + {P}], f32>) {
  %0 = elementwise exp %a : <[{M}, {N}], f32>
  %1 = elementwise tanh %b : <[{M}, {P}], f32>
  %2 = concat %0, %1 axis 1 : (<[{M}, {N}], f32>, <[{M}, {P}], f32>) -> <[{M}, {N} + {P}], f32>
  output %2 : <[{M}, {N} + {P}], f32>""",
    "concat_vectors": """(%a: <[{M}], f32>, %b: <[{N}], f32>) -> (Y: <[{M} + {N}], f32>) {
  %0 = concat %a, %b axis 0 : (<[{M}], f32>, <[{N}], f32>) -> <[{M} + {N}], f32>
  output %0 : <[{M} + {N}], f32>""",
    "concat_one": """(%a: <[{M}, {N}], f32>) -> (Y: <[{M}, {N}], f32>) {
  %0 = concat %a axis 1 : (<[{M}, {N}], f32>) -> <[{M}, {N}], f32>
  output %0 : <[{M}, {N}], f32>""",
    "two_outputs": """(%x: <[{M}], f32>, %y: <[{N}, 3], f32>) -> (Y: <[{M}], f32>, Z: <[{N}, 3], f32>) {
  %0 = elementwise exp %x : <[{M}], f32>
  %1 = elementwise neg %y : <[{N}, 3], f32>
  output %0, %1 : <[{M}], f32>, <[{N}, 3], f32>""",
    "sum_of_pad": """(%x: <[{M}, {N}], f32>) -> (Y: <[{M}], f32>) {
  %0 = pad %x low [0, 1] high [0, 0] value 2.0 : <[{M}, {N}], f32> -> <[{M}, {N} + 1], f32>
  %1 = reduce sum %0 axes [1] : <[{M}, {N} + 1], f32> -> <[{M}], f32>
  output %1 : <[{M}], f32>""",
    "sum_of_concat": """(%a: <[{M}, {N}], f32>, %b: <[{M}, {P}], f32>) -> (Y: <[{M}], f32>) {
  %0 = concat %a, %b axis 1 : (<[{M}, {N}], f32>, <[{M}, {P}], f32>) -> <[{M}, {N} + {P}], f32>
  %1 = reduce max %0 axes [1] : <[{M}, {N} + {P}], f32> -> <[{M}], f32>
  output %1 : <[{M}], f32>""",
}


def sizes_of(name: str) -> list[str]:
    """The sizes that a program leaves open, in order."""
    return list(dict.fromkeys(re.findall(r"{(\w+)}", PROGRAMS[name])))


def text(name: str, given: Mapping[str, str]) -> str:
    """A program with texts for some of its sizes; the others are the symbols of these names."""

    def size(found: re.Match[str]) -> str:
        return given.get(found[1], found[1])

    body = re.sub(r"{(\w+)}", size, PROGRAMS[name])
    body = body.replace("<[", "!frontend.tensor<[")
    body = re.sub(r"(?m)^(  (?:%[\w, %]+ = )?)(\w+)", r"\1frontend.\2", body)
    return f"frontend.graph @g{body}\n}}\n"
