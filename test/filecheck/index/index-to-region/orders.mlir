// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region | polyc-opt | filecheck %s

// What lies between kernels around a convolution has its pixels outside and its channels inside,
// whatever order the graph names its axes in; the graph's own tensors are as the graph says, and a
// convolution that ends in one writes it so where that takes less than a copy.

frontend.graph @between(%x: !frontend.tensor<[N, 64, 56, 56], f16>, %u: !frontend.tensor<[64, 64, 3, 3], f16>, %w: !frontend.tensor<[64, 64, 3, 3], f16>) -> (y: !frontend.tensor<[N, 64, 56, 56], f16>) {
  %0 = frontend.conv2d nchw %x, %u stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, 64, 56, 56], f16>, !frontend.tensor<[64, 64, 3, 3], f16>) -> !frontend.tensor<[N, 64, 56, 56], f16>
  %1 = frontend.elementwise relu %0 : !frontend.tensor<[N, 64, 56, 56], f16>
  %2 = frontend.conv2d nchw %1, %w stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, 64, 56, 56], f16>, !frontend.tensor<[64, 64, 3, 3], f16>) -> !frontend.tensor<[N, 64, 56, 56], f16>
  frontend.output %2 : !frontend.tensor<[N, 64, 56, 56], f16>
}
// CHECK:       region.graph @between
// CHECK-NEXT:      ins(x: !region.memref<[N, 64, 56, 56], f16, align 16, noalias>
// CHECK-NEXT:      outs(y: !region.memref<[N, 64, 56, 56], f16, align 16, noalias>
// CHECK:       region.kernel @between_0 iters [n: N, i1: 56, i2: 56, i3: 64]
// CHECK-NEXT:      ins(%x:
// CHECK-NEXT:      outs(v0: !region.memref<[N, 56, 56, 64], f16
// CHECK:       region.kernel @between_1 iters [i0: 64, i1: 3, i2: 3, i3: 64]
// CHECK-NEXT:      ins(%u:
// CHECK:       region.kernel @between_2 iters [n: N, i1: 56, i2: 56, i3: 64]
// CHECK-NEXT:      ins(%v0: {{.*}}, %v1: {{.*}})
// CHECK-NEXT:      outs(v2: !region.memref<[N, 56, 56, 64], f16{{.*}}; its axes lie in the order [0, 2, 3, 1], pixels outside
// CHECK:         region.reduce sum
// CHECK:       region.kernel @between_3 iters [i0: 64, i1: 3, i2: 3, i3: 64]
// CHECK-NEXT:      ins(%w:
// CHECK:       region.kernel @between_4 iters [n: N, i1: 64, i2: 56, i3: 56]
// CHECK-NEXT:      ins(%v2: {{.*}}, %v3: {{.*}})
// CHECK-NEXT:      outs(y: !region.memref<[N, 64, 56, 56], f16
// CHECK:         region.reduce sum
// CHECK-NOT:   region.kernel @between_5

// Of one tap with a step every other pixel is stored, and the filter is read as it lies.
frontend.graph @skipped(%x: !frontend.tensor<[N, 64, 56, 56], f16>, %w: !frontend.tensor<[128, 64, 1, 1], f16>) -> (y: !frontend.tensor<[N, 128, 28, 28], f16>) {
  %0 = frontend.conv2d nchw %x, %w stride [2, 2] padding [0, 0, 0, 0] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, 64, 56, 56], f16>, !frontend.tensor<[128, 64, 1, 1], f16>) -> !frontend.tensor<[N, 128, 28, 28], f16>
  frontend.output %0 : !frontend.tensor<[N, 128, 28, 28], f16>
}
// CHECK:       region.kernel @skipped_0 iters [n: N, i1: 28, i2: 28, i3: 64
// CHECK-NEXT:      ins(%x:
// CHECK:       region.kernel @skipped_1 iters [n: N, i1: 128, i2: 28, i3: 28]
// CHECK-NEXT:      ins(%w: {{.*}}, %v0:
// CHECK-NEXT:      outs(y:

// Windows in groups of few filters are stored, with the channels of a group inside; filters are read
// where they lie, as a tensor of groups.
frontend.graph @groups(%x: !frontend.tensor<[N, 56, 56, 128], f16>, %w: !frontend.tensor<[128, 3, 3, 8], f16>) -> (y: !frontend.tensor<[N, 56, 56, 128], f16>) {
  %0 = frontend.conv2d nhwc %x, %w stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 16 {acc = f32} : (!frontend.tensor<[N, 56, 56, 128], f16>, !frontend.tensor<[128, 3, 3, 8], f16>) -> !frontend.tensor<[N, 56, 56, 128], f16>
  frontend.output %0 : !frontend.tensor<[N, 56, 56, 128], f16>
}
// CHECK:       region.kernel @groups_0 iters [n: N, i1: 56, i2: 56, i3: 16, i4: 3, i5: 3, i6: 8]
// CHECK-NEXT:      ins(%x:
// CHECK-NEXT:      outs(v0: !region.memref<[N, 56, 56, 16, 3, 3, 8], f16

// In groups of 16 and more they are read where they lie, and the filter as it is.
frontend.graph @large(%x: !frontend.tensor<[N, 56, 56, 128], f16>, %w: !frontend.tensor<[128, 3, 3, 32], f16>) -> (y: !frontend.tensor<[N, 56, 56, 128], f16>) {
  %0 = frontend.conv2d nhwc %x, %w stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 4 {acc = f32} : (!frontend.tensor<[N, 56, 56, 128], f16>, !frontend.tensor<[128, 3, 3, 32], f16>) -> !frontend.tensor<[N, 56, 56, 128], f16>
  frontend.output %0 : !frontend.tensor<[N, 56, 56, 128], f16>
}
// CHECK:       region.kernel @large iters [n: N, i1: 56, i2: 56, i3: 128]
// CHECK:         region.read %x {{.*}}floordiv 32
// CHECK:         region.read %w affine_map<(d0, d1, d2, d3)[s0] -> (d0, d1, d2, d3)>

// What is viewed in another shape lies as it is.
frontend.graph @viewed(%x: !frontend.tensor<[N, 64, H, W], f16>, %w: !frontend.tensor<[64, 64, 3, 3], f16>, %u: !frontend.tensor<[64, 64, 3, 3], f16>) -> (y: !frontend.tensor<[W, 64, H, N], f16>, z: !frontend.tensor<[N, 64, H, W], f16>) {
  %0 = frontend.conv2d nchw %x, %w stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, 64, H, W], f16>, !frontend.tensor<[64, 64, 3, 3], f16>) -> !frontend.tensor<[N, 64, H, W], f16>
  %1 = frontend.elementwise relu %0 : !frontend.tensor<[N, 64, H, W], f16>
  %2 = frontend.reshape %1 : !frontend.tensor<[N, 64, H, W], f16> -> !frontend.tensor<[W, 64, H, N], f16>
  %3 = frontend.conv2d nchw %1, %u stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32} : (!frontend.tensor<[N, 64, H, W], f16>, !frontend.tensor<[64, 64, 3, 3], f16>) -> !frontend.tensor<[N, 64, H, W], f16>
  frontend.output %2, %3 : !frontend.tensor<[W, 64, H, N], f16>, !frontend.tensor<[N, 64, H, W], f16>
}
// CHECK:       region.graph @viewed
// CHECK:       region.kernel @viewed_2 iters [n: N, i1: 64, h: H, w: W]
// CHECK:           outs(v2: !region.memref<[N, 64, H, W], f16{{.*}} is a view of memory and not affine"})
// CHECK:       region.kernel @viewed_3 iters [n: N, h: H, w: W, i3: 64]
// CHECK-NEXT:      ins(%v2: !region.memref<[N, 64, H, W], f16
// CHECK-NEXT:      outs(v3: !region.memref<[N, H, W, 64], f16
