// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of frontend.pool or frontend.arg_pool; the message says which, with the values.

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: avg is not a function of frontend.pool; there are l1, l2, max, mean, min, sum
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.pool avg %x axes [1] size [2] stride [1] padding [0, 0] dilation [1] : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, K - 1], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: pool max computes with numbers, not i1; use frontend.select or a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M, K], i1>) -> !frontend.tensor<[M, K], i1> {
  %r = frontend.pool max %x axes [1] size [2] stride [1] padding [0, 0] dilation [1] : !frontend.tensor<[M, K], i1> -> !frontend.tensor<[M, K - 1], i1>
  frontend.output %x : !frontend.tensor<[M, K], i1>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axes [1, 0] of a pool are different axes of [M, K] in increasing order, 0 to 1
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.pool max %x axes [1, 0] size [2, 2] stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M - 1, K - 1], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: pool has 1 numbers of size for axes [0, 1]; give one for each axis
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.pool max %x axes [0, 1] size [2] stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M - 1, K - 1], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: pool has 2 numbers of padding for axes [0, 1]; give two, before and after, for each axis
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.pool max %x axes [0, 1] size [2, 2] stride [1, 1] padding [0, 0] dilation [1, 1] : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M - 1, K - 1], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[NegativeStrideUnsupported]: stride -1 of a pool is too small; give 1 or more
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.pool max %x axes [1] size [2] stride [-1] padding [0, 0] dilation [1] : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, K - 1], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: padding -1 of a pool is too small; give 0 or more
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.pool max %x axes [1] size [2] stride [1] padding [-1, 0] dilation [1] : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, K - 2], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: dilation 0 of a pool is too small; give 1 or more
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.pool max %x axes [1] size [2] stride [1] padding [0, 0] dilation [0] : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, K], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: pool has windows of 0 along axis 1, which may be none; give 1 or more, or assume it
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.pool max %x axes [1] size [0] stride [1] padding [0, 0] dilation [1] : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, K + 1], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: symbol R in the size of a pool is not in the signature of @f, whose symbols are M, K; use one of these or add an input that has it
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.pool max %x axes [1] size [R] stride [1] padding [0, 0] dilation [1] : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, K], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: pool has windows of M along axis 1 with ceil_mode, where how many there are depends on their size; give a number, or leave ceil_mode out
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> assuming (M >= 1) {
  %r = frontend.pool max %x axes [1] size [M] stride [1] padding [0, 0] dilation [1] ceil_mode : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, K], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: count_include_pad says what a mean divides by, and this pool is a max; leave it out
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.pool max %x axes [1] size [2] stride [1] padding [1, 1] dilation [1] count_include_pad : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, K + 1], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: pool has windows that span 5 along axis 1, which is 3 with its padding; pad more or take smaller windows
frontend.graph @f(%x: !frontend.tensor<[M, 2], f32>) -> !frontend.tensor<[M, 2], f32> {
  %r = frontend.pool max %x axes [1] size [3] stride [1] padding [1, 0] dilation [2] : !frontend.tensor<[M, 2], f32> -> !frontend.tensor<[M, 0], f32>
  frontend.output %x : !frontend.tensor<[M, 2], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of this pool is [M, K - 1], not [M, K]
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.pool max %x axes [1] size [2] stride [1] padding [0, 0] dilation [1] : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, K], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of a pool has element type f32, not f16; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.pool max %x axes [1] size [2] stride [1] padding [0, 0] dilation [1] : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, K - 1], f16>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: pool mean computes with f16, bf16 or f32, not i32; use a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M, K], i32>) -> !frontend.tensor<[M, K], i32> {
  %r = frontend.pool mean %x axes [1] size [2] stride [1] padding [1, 0] dilation [1] : !frontend.tensor<[M, K], i32> -> !frontend.tensor<[M, K], i32>
  frontend.output %r : !frontend.tensor<[M, K], i32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: mean is not a function of frontend.arg_pool; there are max, min
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>, %i: !frontend.tensor<[70000, 65536], i1>, %n: !frontend.tensor<[70000, 65536], f16>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.arg_pool mean %x axes [1] size [2] stride [1] padding [0, 0] dilation [1] : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, K - 1], i64>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: an arg_pool has places of i64 or i32, not of f32; cast them
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>, %i: !frontend.tensor<[70000, 65536], i1>, %n: !frontend.tensor<[70000, 65536], f16>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.arg_pool max %x axes [1] size [2] stride [1] padding [0, 0] dilation [1] : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, K - 1], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: arg_pool max computes with numbers, not i1; use frontend.select or a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>, %i: !frontend.tensor<[70000, 65536], i1>, %n: !frontend.tensor<[70000, 65536], f16>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.arg_pool max %i axes [1] size [2] stride [1] padding [0, 0] dilation [1] : !frontend.tensor<[70000, 65536], i1> -> !frontend.tensor<[70000, 65535], i64>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: stride 0 of an arg_pool is too small; give 1 or more
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>, %i: !frontend.tensor<[70000, 65536], i1>, %n: !frontend.tensor<[70000, 65536], f16>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.arg_pool max %x axes [1] size [2] stride [0] padding [0, 0] dilation [1] : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, K - 1], i64>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of this arg_pool is [M, K - 1], not [M, K]
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>, %i: !frontend.tensor<[70000, 65536], i1>, %n: !frontend.tensor<[70000, 65536], f16>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.arg_pool max %x axes [1] size [2] stride [1] padding [0, 0] dilation [1] : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, K], i64>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: arg_pool has a plane of 4587520000 elements, and a place in it is one of 4294967295; slice it
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>, %i: !frontend.tensor<[70000, 65536], i1>, %n: !frontend.tensor<[70000, 65536], f16>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.arg_pool max %n axes [0, 1] size [1, 1] stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] : !frontend.tensor<[70000, 65536], f16> -> !frontend.tensor<[70000, 65536], i64>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_pooling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: arg_pool has places of i32 among 4587520000 elements, of which i32 has 2147483648; take i64
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>, %i: !frontend.tensor<[70000, 65536], i1>, %n: !frontend.tensor<[70000, 65536], f16>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.arg_pool max %n axes [1] size [1] stride [1] padding [0, 0] dilation [1] whole : !frontend.tensor<[70000, 65536], f16> -> !frontend.tensor<[70000, 65536], i32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}
