// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of frontend.grid_sample; the message says which, with the values.

// CHECK: invalid_sampling.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: bilinear is no mode of frontend.grid_sample; there are nearest, linear, cubic
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f32>, %g: !frontend.tensor<[N, P, Q, 2], f32>) -> !frontend.tensor<[N, C, P, Q], f32> {
  %r = frontend.grid_sample bilinear %x, %g zeros : (!frontend.tensor<[N, C, H, W], f32>, !frontend.tensor<[N, P, Q, 2], f32>) -> !frontend.tensor<[N, C, P, Q], f32>
  frontend.output %r : !frontend.tensor<[N, C, P, Q], f32>
}

// -----

// CHECK: invalid_sampling.mlir:{{[0-9]+:[0-9]+}}: error[ParseError]: wrap is no padding of frontend.grid_sample; there are border, reflection, zeros
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f32>, %g: !frontend.tensor<[N, P, Q, 2], f32>) -> !frontend.tensor<[N, C, P, Q], f32> {
  %r = frontend.grid_sample linear %x, %g wrap : (!frontend.tensor<[N, C, H, W], f32>, !frontend.tensor<[N, P, Q, 2], f32>) -> !frontend.tensor<[N, C, P, Q], f32>
  frontend.output %r : !frontend.tensor<[N, C, P, Q], f32>
}

// -----

// CHECK: invalid_sampling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: grid_sample computes with f16, bf16 or f32, not i32; use a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], i32>, %g: !frontend.tensor<[N, P, Q, 2], f32>) -> !frontend.tensor<[N, C, P, Q], i32> {
  %r = frontend.grid_sample nearest %x, %g zeros : (!frontend.tensor<[N, C, H, W], i32>, !frontend.tensor<[N, P, Q, 2], f32>) -> !frontend.tensor<[N, C, P, Q], i32>
  frontend.output %r : !frontend.tensor<[N, C, P, Q], i32>
}

// -----

// CHECK: invalid_sampling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of a grid_sample has element type f32, not f16; add a frontend.cast
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f32>, %g: !frontend.tensor<[N, P, Q, 2], f32>) -> !frontend.tensor<[N, C, P, Q], f16> {
  %r = frontend.grid_sample linear %x, %g zeros : (!frontend.tensor<[N, C, H, W], f32>, !frontend.tensor<[N, P, Q, 2], f32>) -> !frontend.tensor<[N, C, P, Q], f16>
  frontend.output %r : !frontend.tensor<[N, C, P, Q], f16>
}

// -----

// CHECK: invalid_sampling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: grid_sample reads [N, C] and one to 3 axes, not [N, C]
frontend.graph @f(%x: !frontend.tensor<[N, C], f32>, %g: !frontend.tensor<[N, 0], f32>) -> !frontend.tensor<[N, C], f32> {
  %r = frontend.grid_sample linear %x, %g zeros : (!frontend.tensor<[N, C], f32>, !frontend.tensor<[N, 0], f32>) -> !frontend.tensor<[N, C], f32>
  frontend.output %r : !frontend.tensor<[N, C], f32>
}

// -----

// CHECK: invalid_sampling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: grid_sample cubic takes 64 elements a place of [N, C, D, H, W]; it is along up to 2 axes: take linear
frontend.graph @f(%x: !frontend.tensor<[N, C, D, H, W], f32>, %g: !frontend.tensor<[N, P, Q, R, 3], f32>) -> !frontend.tensor<[N, C, P, Q, R], f32> {
  %r = frontend.grid_sample cubic %x, %g zeros : (!frontend.tensor<[N, C, D, H, W], f32>, !frontend.tensor<[N, P, Q, R, 3], f32>) -> !frontend.tensor<[N, C, P, Q, R], f32>
  frontend.output %r : !frontend.tensor<[N, C, P, Q, R], f32>
}

// -----

// CHECK: invalid_sampling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: grid_sample of [N, C, H, W] has a grid of 4 axes, the last of which has 2 coordinates, not [N, P, Q, 3]
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f32>, %g: !frontend.tensor<[N, P, Q, 3], f32>) -> !frontend.tensor<[N, C, P, Q], f32> {
  %r = frontend.grid_sample linear %x, %g zeros : (!frontend.tensor<[N, C, H, W], f32>, !frontend.tensor<[N, P, Q, 3], f32>) -> !frontend.tensor<[N, C, P, Q], f32>
  frontend.output %r : !frontend.tensor<[N, C, P, Q], f32>
}

// -----

// CHECK: invalid_sampling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: grid_sample has N images and M grids; each has its own
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f32>, %g: !frontend.tensor<[M, P, Q, 2], f32>) -> !frontend.tensor<[N, C, P, Q], f32> {
  %r = frontend.grid_sample linear %x, %g zeros : (!frontend.tensor<[N, C, H, W], f32>, !frontend.tensor<[M, P, Q, 2], f32>) -> !frontend.tensor<[N, C, P, Q], f32>
  frontend.output %r : !frontend.tensor<[N, C, P, Q], f32>
}

// -----

// CHECK: invalid_sampling.mlir:{{[0-9]+:[0-9]+}}: error[InvalidIR]: the result of this grid_sample is [N, C, P, Q], not [N, C, Q, P]
frontend.graph @f(%x: !frontend.tensor<[N, C, H, W], f32>, %g: !frontend.tensor<[N, P, Q, 2], f32>) -> !frontend.tensor<[N, C, Q, P], f32> {
  %r = frontend.grid_sample linear %x, %g zeros : (!frontend.tensor<[N, C, H, W], f32>, !frontend.tensor<[N, P, Q, 2], f32>) -> !frontend.tensor<[N, C, Q, P], f32>
  frontend.output %r : !frontend.tensor<[N, C, Q, P], f32>
}
