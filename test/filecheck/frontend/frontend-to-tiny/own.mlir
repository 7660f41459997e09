// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny | polyc-opt | filecheck %s

// A value that may go through memory says the type that the user gave it: here a sum and a norm
// read it.  What the norm makes a product reads, which rounds it.
// CHECK-LABEL: tiny.graph @residual
// CHECK:         %h = tiny.binary add %{{.*}}, %{{.*}} own bf16 : !tiny.tensor<[T, 64], f32>
// CHECK-NOT:     own
// CHECK:         %n = tiny.binary mul %{{.*}}, %{{.*}} : !tiny.tensor<[T, 64], f32>
// CHECK-NEXT:    tiny.cast %n : !tiny.tensor<[T, 64], f32> -> !tiny.tensor<[T, 64], bf16>
// CHECK:         tiny.binary add %{{.*}}, %h : !tiny.tensor<[T, 64], f32>
frontend.graph @residual(%x: !frontend.tensor<[T, 64], bf16>, %w: !frontend.tensor<[64, 64], bf16>, %v: !frontend.tensor<[64, 64], bf16>) -> (y: !frontend.tensor<[T, 64], bf16>) {
  %0 = frontend.gemm %x, %w {acc = f32} : (!frontend.tensor<[T, 64], bf16>, !frontend.tensor<[64, 64], bf16>) -> !frontend.tensor<[T, 64], bf16>
  %h = frontend.elementwise add %x, %0 : (!frontend.tensor<[T, 64], bf16>, !frontend.tensor<[T, 64], bf16>) -> !frontend.tensor<[T, 64], bf16>
  %n = frontend.rms_norm %h axes [1] eps 0.00001 : !frontend.tensor<[T, 64], bf16>
  %1 = frontend.gemm %n, %v {acc = f32} : (!frontend.tensor<[T, 64], bf16>, !frontend.tensor<[64, 64], bf16>) -> !frontend.tensor<[T, 64], f32>
  %2 = frontend.cast %1 : !frontend.tensor<[T, 64], f32> -> !frontend.tensor<[T, 64], bf16>
  %3 = frontend.elementwise add %2, %h : (!frontend.tensor<[T, 64], bf16>, !frontend.tensor<[T, 64], bf16>) -> !frontend.tensor<[T, 64], bf16>
  frontend.output %3 : !frontend.tensor<[T, 64], bf16>
}

// What a product rounds anyway, all read rounded.
// CHECK-LABEL: tiny.graph @once
// CHECK:         %h = tiny.reduce sum %{{.*}} axes [1] : !tiny.tensor<[T, 64, 64], f32> -> !tiny.tensor<[T, 64], f32>
// CHECK-NEXT:    %[[NARROW:.*]] = tiny.cast %h : !tiny.tensor<[T, 64], f32> -> !tiny.tensor<[T, 64], f16>
// CHECK-NEXT:    %[[WIDE:.*]] = tiny.cast %[[NARROW]] : !tiny.tensor<[T, 64], f16> -> !tiny.tensor<[T, 64], f32>
// CHECK:         tiny.cast %[[NARROW]] : !tiny.tensor<[T, 64], f16> -> !tiny.tensor<[T, 64], f32>
// CHECK:         tiny.binary mul %{{.*}}, %[[WIDE]] : !tiny.tensor<[T, 64], f32>
frontend.graph @once(%x: !frontend.tensor<[T, 64], f16>, %w: !frontend.tensor<[64, 64], f16>, %v: !frontend.tensor<[64, 64], f16>) -> (y: !frontend.tensor<[T, 64], f16>) {
  %h = frontend.gemm %x, %w {acc = f32} : (!frontend.tensor<[T, 64], f16>, !frontend.tensor<[64, 64], f16>) -> !frontend.tensor<[T, 64], f16>
  %0 = frontend.gemm %h, %v {acc = f32} : (!frontend.tensor<[T, 64], f16>, !frontend.tensor<[64, 64], f16>) -> !frontend.tensor<[T, 64], f16>
  %1 = frontend.elementwise mul %0, %h : (!frontend.tensor<[T, 64], f16>, !frontend.tensor<[T, 64], f16>) -> !frontend.tensor<[T, 64], f16>
  frontend.output %1 : !frontend.tensor<[T, 64], f16>
}

// What follows a product alone is rounded at the output, before it is moved there.
// CHECK-LABEL: tiny.graph @moved
// CHECK-NOT:     own
// CHECK:         %r = tiny.binary max
// CHECK-NEXT:    %[[NARROW:.*]] = tiny.cast %r : !tiny.tensor<[T, 64], f32> -> !tiny.tensor<[T, 64], f16>
// CHECK-NEXT:    %[[MOVED:.*]] = tiny.permute %[[NARROW]] perm [1, 0] : !tiny.tensor<[T, 64], f16> -> !tiny.tensor<[64, T], f16>
// CHECK-NEXT:    tiny.output %[[MOVED]] : !tiny.tensor<[64, T], f16>
frontend.graph @moved(%x: !frontend.tensor<[T, 64], f16>, %w: !frontend.tensor<[64, 64], f16>) -> (y: !frontend.tensor<[64, T], f16>) {
  %0 = frontend.gemm %x, %w {acc = f32} : (!frontend.tensor<[T, 64], f16>, !frontend.tensor<[64, 64], f16>) -> !frontend.tensor<[T, 64], f16>
  %r = frontend.elementwise relu %0 : !frontend.tensor<[T, 64], f16>
  %1 = frontend.permute %r perm [1, 0] : !frontend.tensor<[T, 64], f16> -> !frontend.tensor<[64, T], f16>
  frontend.output %1 : !frontend.tensor<[64, T], f16>
}
