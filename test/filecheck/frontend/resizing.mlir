// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// The sizes are those of the result: a number of times as many, a part of them, or any numbers.

// CHECK: %0 = frontend.resize nearest %x axes [2, 3] half_pixel round_prefer_floor : !frontend.tensor<[N, C, H, W], f16> -> !frontend.tensor<[N, C, 2 * H, 3 * W], f16>
// CHECK-NEXT: %1 = frontend.resize nearest %0 axes [2] asymmetric floor {note = "kept"} : !frontend.tensor<[N, C, 2 * H, 3 * W], f16> -> !frontend.tensor<[N, C, H, 3 * W], f16>
frontend.graph @images(%x: !frontend.tensor<[N, C, H, W], f16>) -> !frontend.tensor<[N, C, H, 3 * W], f16> {
  %0 = frontend.resize nearest %x axes [2, 3] half_pixel round_prefer_floor : !frontend.tensor<[N, C, H, W], f16> -> !frontend.tensor<[N, C, 2 * H, 3 * W], f16>
  %1 = frontend.resize nearest %0 axes [2] asymmetric floor {note = "kept"} : !frontend.tensor<[N, C, 2 * H, 3 * W], f16> -> !frontend.tensor<[N, C, H, 3 * W], f16>
  frontend.output %1 : !frontend.tensor<[N, C, H, 3 * W], f16>
}

// CHECK: %0 = frontend.resize nearest %x axes [0] align_corners round_prefer_ceil : !frontend.tensor<[7], f32> -> !frontend.tensor<[5], f32>
// CHECK-NEXT: %1 = frontend.resize nearest %0 axes [0] pytorch_half_pixel ceil : !frontend.tensor<[5], f32> -> !frontend.tensor<[1], f32>
frontend.graph @numbers(%x: !frontend.tensor<[7], f32>) -> !frontend.tensor<[1], f32> {
  %0 = frontend.resize nearest %x axes [0] align_corners round_prefer_ceil : !frontend.tensor<[7], f32> -> !frontend.tensor<[5], f32>
  %1 = frontend.resize nearest %0 axes [0] pytorch_half_pixel ceil : !frontend.tensor<[5], f32> -> !frontend.tensor<[1], f32>
  frontend.output %1 : !frontend.tensor<[1], f32>
}

// What lies between elements has no rounding.

// CHECK: %0 = frontend.resize linear %x axes [1] half_pixel : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, 2 * N], f16>
// CHECK-NEXT: %1 = frontend.resize cubic %0 axes [1] asymmetric {note = "kept"} : !frontend.tensor<[M, 2 * N], f16> -> !frontend.tensor<[M, N], f16>
frontend.graph @between(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> assuming (N >= 4) {
  %0 = frontend.resize linear %x axes [1] half_pixel : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, 2 * N], f16>
  %1 = frontend.resize cubic %0 axes [1] asymmetric {note = "kept"} : !frontend.tensor<[M, 2 * N], f16> -> !frontend.tensor<[M, N], f16>
  frontend.output %1 : !frontend.tensor<[M, N], f16>
}

// Cubic weights may have another coefficient, and leave out what is outside.

// CHECK: frontend.resize cubic %x axes [0] asymmetric coefficient -0.5 exclude_outside : !frontend.tensor<[N], f32> -> !frontend.tensor<[2 * N], f32>
frontend.graph @weights(%x: !frontend.tensor<[N], f32>) -> !frontend.tensor<[2 * N], f32> assuming (N >= 3) {
  %0 = frontend.resize cubic %x axes [0] asymmetric coefficient -0.5 exclude_outside : !frontend.tensor<[N], f32> -> !frontend.tensor<[2 * N], f32>
  frontend.output %0 : !frontend.tensor<[2 * N], f32>
}
