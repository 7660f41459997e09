// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of frontend.resize; the message says which, with the values.

// CHECK: invalid_resizing.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: bicubic is no mode of frontend.resize; there are nearest, linear, cubic
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.resize bicubic %x axes [1] half_pixel floor : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, 2 * K], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_resizing.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: corners is no coordinates of frontend.resize; there are align_corners, asymmetric, half_pixel, pytorch_half_pixel
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.resize nearest %x axes [1] corners floor : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, 2 * K], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_resizing.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: down is no rounding of frontend.resize; there are ceil, floor, round_prefer_ceil, round_prefer_floor
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.resize nearest %x axes [1] half_pixel down : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, 2 * K], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_resizing.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: axes [2] of a resize are different axes of [M, K] in increasing order, 0 to 1
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.resize nearest %x axes [2] asymmetric floor : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, 2 * K], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_resizing.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: resize keeps the number of axes; the operand is [M, K], the result [2 * K]
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.resize nearest %x axes [1] asymmetric floor : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[2 * K], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_resizing.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of this resize is [M, 2 * K], not [2 * M, 2 * K]
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.resize nearest %x axes [1] asymmetric floor : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[2 * M, 2 * K], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_resizing.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: resize of axis 1 from K to K + 1 goes on by what no number is; make one a number of times the other, or give numbers for both
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.resize nearest %x axes [1] asymmetric floor : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, K + 1], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_resizing.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: resize of axis 1 from K to 2 * K with align_corners goes on by what no number is; give numbers for both, or take other coordinates
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.resize nearest %x axes [1] align_corners floor : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, 2 * K], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_resizing.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: resize of axis 1 to K with pytorch_half_pixel is another one where that is 1; assume it to be more, or take half_pixel
frontend.graph @f(%x: !frontend.tensor<[M, 2 * K], f32>) -> !frontend.tensor<[M, 2 * K], f32> {
  %r = frontend.resize nearest %x axes [1] pytorch_half_pixel floor : !frontend.tensor<[M, 2 * K], f32> -> !frontend.tensor<[M, K], f32>
  frontend.output %x : !frontend.tensor<[M, 2 * K], f32>
}

// -----

// CHECK: invalid_resizing.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: resize reads the ends of axis 1 again, whose size K may be 0; assume it to be 1 or more, or take another rounding
frontend.graph @f(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %r = frontend.resize nearest %x axes [1] half_pixel floor : !frontend.tensor<[M, K], f32> -> !frontend.tensor<[M, 4 * K], f32>
  frontend.output %x : !frontend.tensor<[M, K], f32>
}

// -----

// CHECK: invalid_resizing.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: resize of axis 1 makes 3 elements of 0; there is none to take
frontend.graph @f(%x: !frontend.tensor<[M, 0], f32>) -> !frontend.tensor<[M, 0], f32> {
  %r = frontend.resize nearest %x axes [1] half_pixel floor : !frontend.tensor<[M, 0], f32> -> !frontend.tensor<[M, 3], f32>
  frontend.output %x : !frontend.tensor<[M, 0], f32>
}

// -----

// CHECK: invalid_resizing.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: resize linear computes with f16, bf16 or f32, not i32; use a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[4], i32>) -> !frontend.tensor<[8], i32> {
  %r = frontend.resize linear %x axes [0] half_pixel : !frontend.tensor<[4], i32> -> !frontend.tensor<[8], i32>
  frontend.output %r : !frontend.tensor<[8], i32>
}

// -----

// CHECK: invalid_resizing.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: resize cubic reads the ends of axis 0 3 times for a result of 2 * N, which may be less; assume it to be that or more
frontend.graph @f(%x: !frontend.tensor<[N], f32>) -> !frontend.tensor<[2 * N], f32> assuming (N >= 1) {
  %r = frontend.resize cubic %x axes [0] half_pixel : !frontend.tensor<[N], f32> -> !frontend.tensor<[2 * N], f32>
  frontend.output %r : !frontend.tensor<[2 * N], f32>
}

// -----

// CHECK: invalid_resizing.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: coefficient is of the cubic weights, and resize linear has none; leave it out
frontend.graph @f(%x: !frontend.tensor<[8], f32>) -> !frontend.tensor<[16], f32> {
  %r = frontend.resize linear %x axes [0] half_pixel coefficient -0.5 : !frontend.tensor<[8], f32> -> !frontend.tensor<[16], f32>
  frontend.output %r : !frontend.tensor<[16], f32>
}

// -----

// CHECK: invalid_resizing.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: exclude_outside is of the cubic weights, and resize linear has none; leave it out
frontend.graph @f(%x: !frontend.tensor<[8], f32>) -> !frontend.tensor<[16], f32> {
  %r = frontend.resize linear %x axes [0] half_pixel exclude_outside : !frontend.tensor<[8], f32> -> !frontend.tensor<[16], f32>
  frontend.output %r : !frontend.tensor<[16], f32>
}

// -----

// CHECK: invalid_resizing.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the coefficient nan of a resize is no number that weights are made of; give a finite one, as -0.75 or -0.5
frontend.graph @f(%x: !frontend.tensor<[8], f32>) -> !frontend.tensor<[16], f32> {
  %r = frontend.resize cubic %x axes [0] half_pixel coefficient nan : !frontend.tensor<[8], f32> -> !frontend.tensor<[16], f32>
  frontend.output %r : !frontend.tensor<[16], f32>
}

// -----

// CHECK: invalid_resizing.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: frontend.resize has no antialias: it takes the same few elements however much smaller the result is; smooth the tensor by a pool or a convolution before it
frontend.graph @f(%x: !frontend.tensor<[8], f32>) -> !frontend.tensor<[16], f32> {
  %r = frontend.resize cubic %x axes [0] half_pixel antialias : !frontend.tensor<[8], f32> -> !frontend.tensor<[16], f32>
  frontend.output %r : !frontend.tensor<[16], f32>
}
