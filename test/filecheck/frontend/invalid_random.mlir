// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of frontend.random or frontend.dropout; the message says which, with the values.

// CHECK: invalid_random.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: gamma is no distribution of frontend.random; there are bernoulli, bits, normal, uniform
frontend.graph @f(%x: !frontend.tensor<[M], f32>, %s: !frontend.tensor<[], i64>) -> !frontend.tensor<[M], f32> {
  %r = frontend.random gamma %s, %s : (!frontend.tensor<[], i64>, !frontend.tensor<[], i64>) -> !frontend.tensor<[M], f32>
  frontend.output %x : !frontend.tensor<[M], f32>
}

// -----

// CHECK: invalid_random.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: uniform numbers are f16 or bf16 or f32, not i32; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M], f32>, %s: !frontend.tensor<[], i64>) -> !frontend.tensor<[M], f32> {
  %r = frontend.random uniform %s, %s : (!frontend.tensor<[], i64>, !frontend.tensor<[], i64>) -> !frontend.tensor<[M], i32>
  frontend.output %x : !frontend.tensor<[M], f32>
}

// -----

// CHECK: invalid_random.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: bits numbers are ui32, not i32; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M], f32>, %s: !frontend.tensor<[], i64>) -> !frontend.tensor<[M], f32> {
  %r = frontend.random bits %s, %s : (!frontend.tensor<[], i64>, !frontend.tensor<[], i64>) -> !frontend.tensor<[M], i32>
  frontend.output %x : !frontend.tensor<[M], f32>
}

// -----

// CHECK: invalid_random.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: bernoulli has its chance, as in p 0.5
frontend.graph @f(%x: !frontend.tensor<[M], f32>, %s: !frontend.tensor<[], i64>) -> !frontend.tensor<[M], f32> {
  %r = frontend.random bernoulli %s, %s : (!frontend.tensor<[], i64>, !frontend.tensor<[], i64>) -> !frontend.tensor<[M], i1>
  frontend.output %x : !frontend.tensor<[M], f32>
}

// -----

// CHECK: invalid_random.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: normal has no p; bernoulli has one
frontend.graph @f(%x: !frontend.tensor<[M], f32>, %s: !frontend.tensor<[], i64>) -> !frontend.tensor<[M], f32> {
  %r = frontend.random normal %s, %s p 0.5 : (!frontend.tensor<[], i64>, !frontend.tensor<[], i64>) -> !frontend.tensor<[M], f32>
  frontend.output %x : !frontend.tensor<[M], f32>
}

// -----

// CHECK: invalid_random.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the p of bernoulli is a chance from 0 to 1, not 1.5
frontend.graph @f(%x: !frontend.tensor<[M], f32>, %s: !frontend.tensor<[], i64>) -> !frontend.tensor<[M], f32> {
  %r = frontend.random bernoulli %s, %s p 1.5 : (!frontend.tensor<[], i64>, !frontend.tensor<[], i64>) -> !frontend.tensor<[M], i1>
  frontend.output %x : !frontend.tensor<[M], f32>
}

// -----

// CHECK: invalid_random.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the p of dropout is a chance from 0 to 1, not nan
frontend.graph @f(%x: !frontend.tensor<[M], f32>, %s: !frontend.tensor<[], i64>) -> !frontend.tensor<[M], f32> {
  %r = frontend.dropout %x, %s, %s p nan : (!frontend.tensor<[M], f32>, !frontend.tensor<[], i64>, !frontend.tensor<[], i64>) -> !frontend.tensor<[M], f32>
  frontend.output %x : !frontend.tensor<[M], f32>
}

// -----

// CHECK: invalid_random.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the seed of frontend.dropout is an integer of rank 0, not !frontend.tensor<[M], f32>; add a frontend.reshape or a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M], f32>, %s: !frontend.tensor<[], i64>) -> !frontend.tensor<[M], f32> {
  %r = frontend.dropout %x, %x, %s p 0.5 : (!frontend.tensor<[M], f32>, !frontend.tensor<[M], f32>, !frontend.tensor<[], i64>) -> !frontend.tensor<[M], f32>
  frontend.output %x : !frontend.tensor<[M], f32>
}

// -----

// CHECK: invalid_random.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the offset of frontend.random is an integer of rank 0, not !frontend.tensor<[M], f32>; add a frontend.reshape or a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M], f32>, %s: !frontend.tensor<[], i64>) -> !frontend.tensor<[M], f32> {
  %r = frontend.random bits %s, %x : (!frontend.tensor<[], i64>, !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], ui32>
  frontend.output %x : !frontend.tensor<[M], f32>
}

// -----

// CHECK: invalid_random.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of a dropout has element type f32, not f16; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M], f32>, %s: !frontend.tensor<[], i64>) -> !frontend.tensor<[M], f32> {
  %r = frontend.dropout %x, %s, %s p 0.5 : (!frontend.tensor<[M], f32>, !frontend.tensor<[], i64>, !frontend.tensor<[], i64>) -> !frontend.tensor<[M], f16>
  frontend.output %x : !frontend.tensor<[M], f32>
}

// -----

// CHECK: invalid_random.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of a dropout is [M], not [4]
frontend.graph @f(%x: !frontend.tensor<[M], f32>, %s: !frontend.tensor<[], i64>) -> !frontend.tensor<[M], f32> {
  %r = frontend.dropout %x, %s, %s p 0.5 : (!frontend.tensor<[M], f32>, !frontend.tensor<[], i64>, !frontend.tensor<[], i64>) -> !frontend.tensor<[4], f32>
  frontend.output %x : !frontend.tensor<[M], f32>
}

// -----

// CHECK: invalid_random.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: dropout computes with f16, bf16 or f32, not i64; use a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M], f32>, %s: !frontend.tensor<[], i64>) -> !frontend.tensor<[M], f32> {
  %r = frontend.dropout %s, %s, %s p 0.5 : (!frontend.tensor<[], i64>, !frontend.tensor<[], i64>, !frontend.tensor<[], i64>) -> !frontend.tensor<[], i64>
  frontend.output %x : !frontend.tensor<[M], f32>
}
