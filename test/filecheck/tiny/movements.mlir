// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// CHECK: tiny.graph @movements(%x: !tiny.tensor<[M, 8 * K], f32>, %c: !tiny.tensor<[N], i1>) -> (C: !tiny.tensor<[M, 4, K + N], f32>) {
// CHECK-NEXT: %0 = tiny.reshape %x : !tiny.tensor<[M, 8 * K], f32> -> !tiny.tensor<[M, K, 8], f32>
// CHECK-NEXT: %1 = tiny.permute %0 perm [0, 2, 1] : !tiny.tensor<[M, K, 8], f32> -> !tiny.tensor<[M, 8, K], f32>
// CHECK-NEXT: %2 = tiny.slice %1 [0:M, 1:8:3, 0:K] {note = "kept"} : !tiny.tensor<[M, 8, K], f32> -> !tiny.tensor<[M, 3, K], f32>
// CHECK-NEXT: %3 = tiny.pad %2 low [0, 0, N] high [0, 1, 0] value -inf : !tiny.tensor<[M, 3, K], f32> -> !tiny.tensor<[M, 4, K + N], f32>
// CHECK-NEXT: %4 = tiny.expand %c dims [1] : !tiny.tensor<[N], i1> -> !tiny.tensor<[M, N], i1>
// CHECK-NEXT: tiny.output %3 : !tiny.tensor<[M, 4, K + N], f32>
tiny.graph @movements(%x: !tiny.tensor<[M, 8 * K], f32>, %c: !tiny.tensor<[N], i1>) -> !tiny.tensor<[M, 4, K + N], f32> {
  %0 = tiny.reshape %x : !tiny.tensor<[M, 8 * K], f32> -> !tiny.tensor<[M, K, 8], f32>
  %1 = tiny.permute %0 perm [0, 2, 1] : !tiny.tensor<[M, K, 8], f32> -> !tiny.tensor<[M, 8, K], f32>
  %2 = tiny.slice %1 [0:M, 1:8:3, 0:K] {note = "kept"} : !tiny.tensor<[M, 8, K], f32> -> !tiny.tensor<[M, 3, K], f32>
  %3 = tiny.pad %2 low [0, 0, N] high [0, 1, 0] value -inf : !tiny.tensor<[M, 3, K], f32> -> !tiny.tensor<[M, 4, K + N], f32>
  %4 = tiny.expand %c dims [1] : !tiny.tensor<[N], i1> -> !tiny.tensor<[M, N], i1>
  tiny.output %3 : !tiny.tensor<[M, 4, K + N], f32>
}

// Windows are counted by the whole ones; their elements are along new axes at the end.

// CHECK: tiny.graph @windows(%x: !tiny.tensor<[N, H, W], f32>) -> (C: !tiny.tensor<[N, (H + 1) floordiv 2 - 2, W, 3, 1], f32>) {
// CHECK-NEXT: %0 = tiny.window %x axes [1, 2] size [3, 1] stride [2, 1] dilation [2, 1] : !tiny.tensor<[N, H, W], f32> -> !tiny.tensor<[N, (H + 1) floordiv 2 - 2, W, 3, 1], f32>
// CHECK-NEXT: tiny.output %0 : !tiny.tensor<[N, (H + 1) floordiv 2 - 2, W, 3, 1], f32>
tiny.graph @windows(%x: !tiny.tensor<[N, H, W], f32>) -> !tiny.tensor<[N, (H - 5) floordiv 2 + 1, W, 3, 1], f32> {
  %0 = tiny.window %x axes [1, 2] size [3, 1] stride [2, 1] dilation [2, 1] : !tiny.tensor<[N, H, W], f32> -> !tiny.tensor<[N, (H - 5) floordiv 2 + 1, W, 3, 1], f32>
  tiny.output %0 : !tiny.tensor<[N, (H - 5) floordiv 2 + 1, W, 3, 1], f32>
}

// With a negative dilation a window runs backwards.

// CHECK: tiny.graph @backwards(%x: !tiny.tensor<[R, W], f32>) -> (C: !tiny.tensor<[1, W, R], f32>) assuming (R >= 1) {
// CHECK-NEXT: %0 = tiny.window %x axes [0] size [R] stride [1] dilation [-1] : !tiny.tensor<[R, W], f32> -> !tiny.tensor<[1, W, R], f32>
tiny.graph @backwards(%x: !tiny.tensor<[R, W], f32>) -> !tiny.tensor<[1, W, R], f32> assuming (R >= 1) {
  %0 = tiny.window %x axes [0] size [R] stride [1] dilation [-1] : !tiny.tensor<[R, W], f32> -> !tiny.tensor<[1, W, R], f32>
  tiny.output %0 : !tiny.tensor<[1, W, R], f32>
}

// CHECK: tiny.graph @sampled(%x: !tiny.tensor<[M, K + 1], f16>) -> (C: !tiny.tensor<[M, 2 * K], f16>) {
// CHECK-NEXT: %0 = tiny.sample %x axis 1 step 1 offset 1 divisor 2 {note = "kept"} : !tiny.tensor<[M, K + 1], f16> -> !tiny.tensor<[M, 2 * K], f16>
tiny.graph @sampled(%x: !tiny.tensor<[M, K + 1], f16>) -> !tiny.tensor<[M, 2 * K], f16> {
  %0 = tiny.sample %x axis 1 step 1 offset 1 divisor 2 {note = "kept"} : !tiny.tensor<[M, K + 1], f16> -> !tiny.tensor<[M, 2 * K], f16>
  tiny.output %0 : !tiny.tensor<[M, 2 * K], f16>
}

// CHECK: tiny.graph @repeats_ends(%x: !tiny.tensor<[M, 3], f16>) -> (C: !tiny.tensor<[M, 6], f16>) {
// CHECK-NEXT: %0 = tiny.sample %x axis 1 step 2 offset -1 divisor 4 ends : !tiny.tensor<[M, 3], f16> -> !tiny.tensor<[M, 6], f16>
tiny.graph @repeats_ends(%x: !tiny.tensor<[M, 3], f16>) -> !tiny.tensor<[M, 6], f16> {
  %0 = tiny.sample %x axis 1 step 2 offset -1 divisor 4 ends : !tiny.tensor<[M, 3], f16> -> !tiny.tensor<[M, 6], f16>
  tiny.output %0 : !tiny.tensor<[M, 6], f16>
}

// A condition is over the axes and the signature's symbols.

// CHECK: tiny.graph @masks(%x: !tiny.tensor<[M, N], f32>) -> (C: !tiny.tensor<[M, N], f32>) {
// CHECK-NEXT: %0 = tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (((d0 + s1) + ((d1 * -1) + (s0 * -1))) >= 0, ((d0 floordiv 2) + -1) == 0)> fill -inf : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: tiny.output %0 : !tiny.tensor<[M, N], f32>
tiny.graph @masks(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %0 = tiny.mask %x where affine_set<(d0, d1)[s0, s1] : ((d0 + s1) - (d1 + s0) >= 0, (d0 floordiv 2) - 1 == 0)> fill -inf : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %0 : !tiny.tensor<[M, N], f32>
}

// A size as a scalar.

// CHECK: tiny.graph @sizes(%x: !tiny.tensor<[M, N], f32>) -> (C: !tiny.tensor<[], f32>) {
// CHECK-NEXT: %0 = tiny.dim M * N : !tiny.tensor<[], f32>
// CHECK-NEXT: %1 = tiny.dim (M + 1) floordiv 2 - 1 {note = "kept"} : !tiny.tensor<[], f32>
// CHECK-NEXT: %2 = tiny.binary add %0, %1 : !tiny.tensor<[], f32>
// CHECK-NEXT: tiny.output %2 : !tiny.tensor<[], f32>
tiny.graph @sizes(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[], f32> {
  %0 = tiny.dim M * N : !tiny.tensor<[], f32>
  %1 = tiny.dim (M + 1) floordiv 2 - 1 {note = "kept"} : !tiny.tensor<[], f32>
  %2 = tiny.binary add %0, %1 : !tiny.tensor<[], f32>
  tiny.output %2 : !tiny.tensor<[], f32>
}

// Conditions are inputs and outputs too.

// CHECK: tiny.graph @booleans(%c: !tiny.tensor<[M], i1>) -> (C: !tiny.tensor<[M], i1>) {
// CHECK-NEXT: tiny.output %c : !tiny.tensor<[M], i1>
tiny.graph @booleans(%c: !tiny.tensor<[M], i1>) -> !tiny.tensor<[M], i1> {
  tiny.output %c : !tiny.tensor<[M], i1>
}

// A pad is movement in floats of fewer bits too.
// CHECK-LABEL: tiny.graph @narrow
// CHECK-NEXT: %0 = tiny.pad %x low [1] high [2] value -0.5 : !tiny.tensor<[M], f16> -> !tiny.tensor<[M + 3], f16>
tiny.graph @narrow(%x: !tiny.tensor<[M], f16>) -> !tiny.tensor<[M + 3], f16> {
  %0 = tiny.pad %x low [1] high [2] value -0.5 : !tiny.tensor<[M], f16> -> !tiny.tensor<[M + 3], f16>
  tiny.output %0 : !tiny.tensor<[M + 3], f16>
}
