// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s

// Real numbers are computed in f32, and rounded once where they are stored.

// CHECK-LABEL: tiny.graph @scans
// CHECK-NEXT: %x_f32 = tiny.cast %x : !tiny.tensor<[M, N], f16> -> !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %0 = tiny.scan sum %x_f32 axis 1 exclusive own f16 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %1 = tiny.scan prod %0 axis 0 reverse : !tiny.tensor<[M, N], f32>
// CHECK: tiny.cast %1 : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f16>
frontend.graph @scans(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %0 = frontend.scan sum %x axis 1 exclusive : !frontend.tensor<[M, N], f16>
  %1 = frontend.scan prod %0 axis 0 reverse : !frontend.tensor<[M, N], f16>
  frontend.output %1 : !frontend.tensor<[M, N], f16>
}
