// RUN: polyc-opt %s -p tiny-canonicalize-movements | filecheck %s
// RUN: polyc-opt %s -p tiny-canonicalize-movements | polyc-opt | filecheck %s

// A chain of reshapes, permutes and expands: permutes go to the leaf and fuse.

// CHECK: tiny.graph @chain(%x: !tiny.tensor<[M, N], f32>) -> (C: !tiny.tensor<[N, M, 4], f32>) {
// CHECK-NEXT: %f = tiny.permute %x perm [1, 0] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N, M], f32>
// CHECK-NEXT: %f_1 = tiny.reshape %f : !tiny.tensor<[N, M], f32> -> !tiny.tensor<[N, M, 1], f32>
// CHECK-NEXT: %f_2 = tiny.expand %f_1 dims [0, 1, 2] : !tiny.tensor<[N, M, 1], f32> -> !tiny.tensor<[N, M, 4], f32>
// CHECK-NEXT: tiny.output %f_2 : !tiny.tensor<[N, M, 4], f32>
tiny.graph @chain(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[N, M, 4], f32> {
  %a = tiny.reshape %x : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M * N], f32>
  %b = tiny.reshape %a : !tiny.tensor<[M * N], f32> -> !tiny.tensor<[M, 1, N], f32>
  %c = tiny.permute %b perm [2, 0, 1] : !tiny.tensor<[M, 1, N], f32> -> !tiny.tensor<[N, M, 1], f32>
  %d = tiny.expand %c dims [0, 1, 2] : !tiny.tensor<[N, M, 1], f32> -> !tiny.tensor<[N, M, 4], f32>
  %e = tiny.permute %d perm [2, 1, 0] : !tiny.tensor<[N, M, 4], f32> -> !tiny.tensor<[4, M, N], f32>
  %f = tiny.permute %e perm [2, 1, 0] : !tiny.tensor<[4, M, N], f32> -> !tiny.tensor<[N, M, 4], f32>
  tiny.output %f : !tiny.tensor<[N, M, 4], f32>
}

// A slice of a pad takes nothing that was added; the slices meet. What others use stays.

// CHECK: tiny.graph @pads(%x: !tiny.tensor<[M, N], f32>) -> (A: !tiny.tensor<[(M + 1) floordiv 2, N], f32>, B: !tiny.tensor<[M + 2, N], f32>) {
// CHECK-NEXT: %b = tiny.pad %x low [1, 0] high [1, 0] value 0.0 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M + 2, N], f32>
// CHECK-NEXT: %d = tiny.slice %x [0:M:2, 0:N] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[(M + 1) floordiv 2, N], f32>
// CHECK-NEXT: tiny.output %d, %b : !tiny.tensor<[(M + 1) floordiv 2, N], f32>, !tiny.tensor<[M + 2, N], f32>
tiny.graph @pads(%x: !tiny.tensor<[M, N], f32>) -> (A: !tiny.tensor<[(M + 1) floordiv 2, N], f32>, B: !tiny.tensor<[M + 2, N], f32>) {
  %a = tiny.pad %x low [1, 0] high [0, 0] value 0.0 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M + 1, N], f32>
  %b = tiny.pad %a low [0, 0] high [1, 0] value 0.0 : !tiny.tensor<[M + 1, N], f32> -> !tiny.tensor<[M + 2, N], f32>
  %c = tiny.slice %b [1:M + 1, 0:N] : !tiny.tensor<[M + 2, N], f32> -> !tiny.tensor<[M, N], f32>
  %d = tiny.slice %c [0:M:2, 0:N] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[(M + 1) floordiv 2, N], f32>
  tiny.output %d, %b : !tiny.tensor<[(M + 1) floordiv 2, N], f32>, !tiny.tensor<[M + 2, N], f32>
}

// A mask that holds everywhere goes; masks with one fill become one.

// CHECK: tiny.graph @masks(%x: !tiny.tensor<[M, N], f32>) -> (C: !tiny.tensor<[M, N], f32>) assuming (M >= 2) {
// CHECK-NEXT: %c = tiny.mask %x where affine_set<(d0, d1)[s0, s1] : ((d0 + (d1 * -1)) >= 0, (((d0 * -1) + d1) + 7) >= 0)> fill -inf : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: tiny.output %c : !tiny.tensor<[M, N], f32>
tiny.graph @masks(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M, N], f32> assuming (M >= 2) {
  %a = tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (s0 + d1 - 2 >= 0)> fill 0.0 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  %b = tiny.mask %a where affine_set<(d0, d1)[s0, s1] : (d0 - d1 >= 0)> fill -inf : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  %c = tiny.mask %b where affine_set<(d0, d1)[s0, s1] : (d1 - d0 + 7 >= 0)> fill -inf : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %c : !tiny.tensor<[M, N], f32>
}

// A permute that takes a factor group apart stays where it is.

// CHECK: tiny.graph @apart(%x: !tiny.tensor<[M, 8 * N], f32>) -> (C: !tiny.tensor<[8, M, N], f32>) {
// CHECK-NEXT: %a = tiny.reshape %x : !tiny.tensor<[M, 8 * N], f32> -> !tiny.tensor<[M, N, 8], f32>
// CHECK-NEXT: %b = tiny.permute %a perm [2, 0, 1] : !tiny.tensor<[M, N, 8], f32> -> !tiny.tensor<[8, M, N], f32>
// CHECK-NEXT: tiny.output %b : !tiny.tensor<[8, M, N], f32>
tiny.graph @apart(%x: !tiny.tensor<[M, 8 * N], f32>) -> !tiny.tensor<[8, M, N], f32> {
  %a = tiny.reshape %x : !tiny.tensor<[M, 8 * N], f32> -> !tiny.tensor<[M, N, 8], f32>
  %b = tiny.permute %a perm [2, 0, 1] : !tiny.tensor<[M, N, 8], f32> -> !tiny.tensor<[8, M, N], f32>
  tiny.output %b : !tiny.tensor<[8, M, N], f32>
}
