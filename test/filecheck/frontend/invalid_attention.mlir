// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of the dialect; the message says which, with the values.

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: attention takes q, k and v, not 2 values; masks follow mask
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r = frontend.attention %x, %w {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>) -> !frontend.tensor<[B, H, M, D], f16>
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[AccDtypeMissing]: attention does not say in which type it sums; add {acc = f32}
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r = frontend.attention %x, %w, %y : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, E], f16>
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: attention takes q, k and v of one rank, 3 or more, with axes for heads, positions and features; q is !frontend.tensor<[M, D], f16>
frontend.graph @f(%x: !frontend.tensor<[M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[M, D], f16> {
  %r = frontend.attention %x, %w, %y {acc = f32} : (!frontend.tensor<[M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[M, E], f16>
  frontend.output %x : !frontend.tensor<[M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: attention takes q, k and v of one rank, 3 or more, with axes for heads, positions and features; k is !frontend.tensor<[H, N, D], f16>
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r = frontend.attention %x, %w, %y {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, E], f16>
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: attention operands have one element type, not f16 and bf16; cast one of them
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], bf16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r = frontend.attention %x, %w, %y {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], bf16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, E], f16>
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: an attention of f16 gives f16 or f32, not bf16; cast the result
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r = frontend.attention %x, %w, %y {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, E], bf16>
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the batches of q and k of an attention are equal, not [B] and [C]: q is [B, H, M, D], k [C, H, N, D], v [B, H, N, E]
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[C, H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r = frontend.attention %x, %w, %y {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[C, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, E], f16>
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the features of q and k of an attention are equal, not [D] and [E]: q is [B, H, M, D], k [B, H, N, E], v [B, H, N, E]
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[B, H, N, E], f16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r = frontend.attention %x, %w, %y {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, E], f16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, E], f16>
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the positions of k and v of an attention are equal, not [N] and [M]: q is [B, H, M, D], k [B, H, N, D], v [B, H, M, E]
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>, %y: !frontend.tensor<[B, H, M, E], f16>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r = frontend.attention %x, %w, %y {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, M, E], f16>) -> !frontend.tensor<[B, H, M, E], f16>
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: attention has 6 query heads for 4 key heads; each key head serves the same number of query heads, an integer
frontend.graph @f(%x: !frontend.tensor<[B, 6, M, D], f16>, %w: !frontend.tensor<[B, 4, N, D], f16>, %y: !frontend.tensor<[B, 4, N, E], f16>) -> !frontend.tensor<[B, 6, M, D], f16> {
  %r = frontend.attention %x, %w, %y {acc = f32} : (!frontend.tensor<[B, 6, M, D], f16>, !frontend.tensor<[B, 4, N, D], f16>, !frontend.tensor<[B, 4, N, E], f16>) -> !frontend.tensor<[B, 6, M, E], f16>
  frontend.output %x : !frontend.tensor<[B, 6, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: attention has P query heads for H key heads; each key head serves the same number of query heads, an integer
frontend.graph @f(%x: !frontend.tensor<[B, P, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, P, M, D], f16> {
  %r = frontend.attention %x, %w, %y {acc = f32} : (!frontend.tensor<[B, P, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, P, M, E], f16>
  frontend.output %x : !frontend.tensor<[B, P, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: attention has H * P query heads for H key heads; each key head serves the same number of query heads, an integer
frontend.graph @f(%x: !frontend.tensor<[B, P * H, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, P * H, M, D], f16> {
  %r = frontend.attention %x, %w, %y {acc = f32} : (!frontend.tensor<[B, P * H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, P * H, M, E], f16>
  frontend.output %x : !frontend.tensor<[B, P * H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[BroadcastMismatch]: a mask of [N, M] does not broadcast to the scores, [B, H, M, N], aligned at the right; sizes are equal or the mask's is 1
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>, %z: !frontend.tensor<[N, M], i1>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r = frontend.attention %x, %w, %y mask %z {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>, !frontend.tensor<[N, M], i1>) -> !frontend.tensor<[B, H, M, E], f16>
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[BroadcastMismatch]: a mask of [P, B, H, M, N] does not broadcast to the scores, [B, H, M, N], aligned at the right; sizes are equal or the mask's is 1
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>, %z: !frontend.tensor<[P, B, H, M, N], f32>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r = frontend.attention %x, %w, %y mask %z {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>, !frontend.tensor<[P, B, H, M, N], f32>) -> !frontend.tensor<[B, H, M, E], f16>
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: window [3] of an attention has 1 sizes; give 2, how far before and after
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r = frontend.attention %x, %w, %y window [3] {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, E], f16>
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: window [3, M - N] of an attention has the size M - N, which may be negative; give 0 or more, and move it by offset
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r = frontend.attention %x, %w, %y window [3, M - N] {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, E], f16>
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: symbol P in the window of an attention is not in the signature of @f, whose symbols are B, H, M, D, N, E; use one of these or add an input that has it
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r = frontend.attention %x, %w, %y window [3, P] {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, E], f16>
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: symbol P in the offset of an attention is not in the signature of @f, whose symbols are B, H, M, D, N, E; use one of these or add an input that has it
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r = frontend.attention %x, %w, %y offset P {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, E], f16>
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[NonSCoP]: the position M * N in an attention multiplies symbols, and is not affine; give it a symbol of its own
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r = frontend.attention %x, %w, %y offset M * N {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, E], f16>
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of this attention is [B, H, M, E], not [B, H, M, D]
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r = frontend.attention %x, %w, %y {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, D], f16>
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the log-sum-exp of an attention has element type f32, not f16; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r, %l = frontend.attention %x, %w, %y {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> (!frontend.tensor<[B, H, M, E], f16>, !frontend.tensor<[B, H, M], f16>)
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the log-sum-exp of this attention is [B, H, M], not [B, H, N]
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r, %l = frontend.attention %x, %w, %y {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> (!frontend.tensor<[B, H, M, E], f16>, !frontend.tensor<[B, H, N], f32>)
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}

// -----

// CHECK: invalid_attention.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the cap of an attention's scores is a number above 0, not 0.0; leave it out where scores have none
frontend.graph @f(%x: !frontend.tensor<[B, H, M, D], f16>, %w: !frontend.tensor<[B, H, N, D], f16>, %y: !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, D], f16> {
  %r = frontend.attention %x, %w, %y cap 0.0 {acc = f32} : (!frontend.tensor<[B, H, M, D], f16>, !frontend.tensor<[B, H, N, D], f16>, !frontend.tensor<[B, H, N, E], f16>) -> !frontend.tensor<[B, H, M, E], f16>
  frontend.output %x : !frontend.tensor<[B, H, M, D], f16>
}
