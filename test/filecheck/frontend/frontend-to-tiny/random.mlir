// RUN: polyc-opt %s -p frontend-to-tiny | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region | filecheck %s --check-prefix REGION

// Places are counted axis by axis in 64 bits; an offset that is known to be 0 is none.

// CHECK-LABEL: tiny.graph @bits
// CHECK: %0 = tiny.iota : !tiny.tensor<[M], ui64>
// CHECK-NEXT: %1 = tiny.dim N : !tiny.tensor<[], ui64>
// CHECK-NEXT: %2 = tiny.expand %1 dims [] : !tiny.tensor<[], ui64> -> !tiny.tensor<[M], ui64>
// CHECK-NEXT: %3 = tiny.binary mul %0, %2 : !tiny.tensor<[M], ui64>
// CHECK-NEXT: %4 = tiny.iota : !tiny.tensor<[N], ui64>
// CHECK-NEXT: %5 = tiny.expand %4 dims [1] : !tiny.tensor<[N], ui64> -> !tiny.tensor<[M, N], ui64>
// CHECK-NEXT: %6 = tiny.expand %3 dims [0] : !tiny.tensor<[M], ui64> -> !tiny.tensor<[M, N], ui64>
// CHECK-NEXT: %7 = tiny.binary add %6, %5 : !tiny.tensor<[M, N], ui64>
// CHECK: [[R:%[0-9]+]] = tiny.binary philox %7, %{{[0-9]+}} : !tiny.tensor<[M, N], ui64>
// CHECK-NEXT: %y = tiny.cast [[R]] : !tiny.tensor<[M, N], ui64> -> !tiny.tensor<[M, N], ui32>
// REGION: region.index affine_map<(d0)[s0, s1] -> (d0)> : !region.val<[m: M], ui64>
// REGION: region.binary philox
frontend.graph @bits(%s: !frontend.tensor<[], i64>) -> !frontend.tensor<[M, N], ui32> {
  %o = frontend.constant 0 : !frontend.tensor<[], ui64>
  %y = frontend.random bits %s, %o : (!frontend.tensor<[], i64>, !frontend.tensor<[], ui64>) -> !frontend.tensor<[M, N], ui32>
  frontend.output %y : !frontend.tensor<[M, N], ui32>
}

// A condition that always holds is one below 2^32; what is dropped is a choice, and no product.

// CHECK-LABEL: tiny.graph @kept
// CHECK: tiny.constant 4294967296 : !tiny.tensor<[], ui64>
// CHECK: [[C:%[0-9]+]] = tiny.compare lt
// CHECK: tiny.constant 1.0 : !tiny.tensor<[], f32>
// CHECK: tiny.select [[C]], %{{[0-9]+}}, %{{[0-9]+}} : !tiny.tensor<[], f32>
frontend.graph @kept(%x: !frontend.tensor<[], f32>, %s: !frontend.tensor<[], i64>) -> !frontend.tensor<[], f32> {
  %y = frontend.dropout %x, %s, %s p 0.0 : (!frontend.tensor<[], f32>, !frontend.tensor<[], i64>, !frontend.tensor<[], i64>) -> !frontend.tensor<[], f32>
  frontend.output %y : !frontend.tensor<[], f32>
}
