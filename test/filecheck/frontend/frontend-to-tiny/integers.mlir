// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s

// Integers are computed in their own type, and nothing is widened.  A cast to f16 goes through f32; a
// concat pads with the least of the type.

// CHECK: tiny.graph @integers
// CHECK-NOT: f16>, f32
// CHECK: %{{.*}} = tiny.iota : !tiny.tensor<[N], i32>
// CHECK-NEXT: %{{.*}} = tiny.expand %{{.*}} dims [1] : !tiny.tensor<[N], i32> -> !tiny.tensor<[M, N], i32>
// CHECK-NEXT: %{{.*}} = tiny.binary add %x, %{{.*}} : !tiny.tensor<[M, N], i32>
// CHECK-NEXT: %{{.*}} = tiny.pad %{{.*}} low [0, 0] high [M, 0] value -2147483648
// CHECK-NEXT: %{{.*}} = tiny.pad %x low [M, 0] high [0, 0] value -2147483648
// CHECK-NEXT: %{{.*}} = tiny.binary max %{{.*}}, %{{.*}} : !tiny.tensor<[2 * M, N], i32>
// CHECK-NEXT: %{{.*}} = tiny.cast %{{.*}} : !tiny.tensor<[2 * M, N], i32> -> !tiny.tensor<[2 * M, N], f32>
// CHECK-NEXT: %{{.*}} = tiny.cast %{{.*}} : !tiny.tensor<[2 * M, N], f32> -> !tiny.tensor<[2 * M, N], f16>
frontend.graph @integers(%x: !frontend.tensor<[M, N], i32>) -> !frontend.tensor<[2 * M, N], f16> {
  %0 = frontend.iota axis 1 : !frontend.tensor<[M, N], i32>
  %1 = frontend.elementwise add %x, %0 : (!frontend.tensor<[M, N], i32>, !frontend.tensor<[M, N], i32>) -> !frontend.tensor<[M, N], i32>
  %2 = frontend.concat %1, %x axis 0 : (!frontend.tensor<[M, N], i32>, !frontend.tensor<[M, N], i32>) -> !frontend.tensor<[2 * M, N], i32>
  %3 = frontend.cast %2 : !frontend.tensor<[2 * M, N], i32> -> !frontend.tensor<[2 * M, N], f16>
  frontend.output %3 : !frontend.tensor<[2 * M, N], f16>
}
