// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index | filecheck %s --check-prefix INDEX

// One read an axis, which the book says.

// CHECK-LABEL: tiny.graph @twice
// CHECK: %0 = tiny.sample %x axis 1 step 4 offset 1 divisor 8 : !tiny.tensor<[C, H], f32> -> !tiny.tensor<[C, 2 * H], f32>
// CHECK-NEXT: tiny.output %0
// INDEX: index.value %0 axes [i0(0): C, i1(2): 2 * H] box from [affine_map<(d0, d1)[s0, s1] -> (d0, (d1 floordiv 2))>]
frontend.graph @twice(%x: !frontend.tensor<[C, H], f32>) -> !frontend.tensor<[C, 2 * H], f32> {
  %0 = frontend.resize nearest %x axes [1] half_pixel round_prefer_floor : !frontend.tensor<[C, H], f32> -> !frontend.tensor<[C, 2 * H], f32>
  frontend.output %0 : !frontend.tensor<[C, 2 * H], f32>
}

// Where places are outside, the end is there again.

// CHECK-LABEL: tiny.graph @ends
// CHECK: %0 = tiny.slice %x [0:1] : !tiny.tensor<[H], f32> -> !tiny.tensor<[1], f32>
// CHECK-NEXT: %1 = tiny.expand %0 dims [0] : !tiny.tensor<[1], f32> -> !tiny.tensor<[2], f32>
// CHECK-NEXT: %2 = tiny.sample %x axis 0 step 2 offset 1 divisor 8 : !tiny.tensor<[H], f32> -> !tiny.tensor<[4 * H - 2], f32>
// CHECK-NEXT: %3 = tiny.pad %1 low [0] high [4 * H - 2] value -inf
// CHECK: tiny.binary max
frontend.graph @ends(%x: !frontend.tensor<[H], f32>) -> !frontend.tensor<[4 * H], f32> assuming (H >= 1) {
  %0 = frontend.resize nearest %x axes [0] half_pixel floor : !frontend.tensor<[H], f32> -> !frontend.tensor<[4 * H], f32>
  frontend.output %0 : !frontend.tensor<[4 * H], f32>
}

// Of known sizes one sample reads them, whose place is affine for all points.

// CHECK-LABEL: tiny.graph @between
// CHECK: tiny.sample %x axis 0 step 8 offset -4 divisor 16 ends : !tiny.tensor<[4], f32> -> !tiny.tensor<[8], f32>
// CHECK: tiny.sample %x axis 0 step 8 offset 12 divisor 16 ends : !tiny.tensor<[4], f32> -> !tiny.tensor<[8], f32>
// CHECK-NOT: tiny.pad
// INDEX-LABEL: tiny.graph @between
// INDEX: box from [affine_map<(d0) -> ((((d0 + 1) floordiv 2) + (((d0 + 7) floordiv 8) * -1)))>]
// INDEX: box from [affine_map<(d0) -> ((((d0 + 1) floordiv 2) + (((d0 + 1) floordiv 8) * -1)))>]
frontend.graph @between(%x: !frontend.tensor<[4], f32>) -> !frontend.tensor<[8], f32> {
  %0 = frontend.resize linear %x axes [0] half_pixel : !frontend.tensor<[4], f32> -> !frontend.tensor<[8], f32>
  frontend.output %0 : !frontend.tensor<[8], f32>
}
