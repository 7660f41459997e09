// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// CHECK: %0 = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
// CHECK-NEXT: %1 = tiny.scatter set %0, %v at [%j, %k] axes [0, 1] {note = "kept"} : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[M, 1], f32>, !tiny.tensor<[M, 1], ui8>, !tiny.tensor<[M, 1], i32>) -> !tiny.tensor<[V, D], f32>
tiny.graph @floats(%x: !tiny.tensor<[V, D], f32>, %u: !tiny.tensor<[N, D], f32>, %i: !tiny.tensor<[N, D], i64>, %v: !tiny.tensor<[M, 1], f32>, %j: !tiny.tensor<[M, 1], ui8>, %k: !tiny.tensor<[M, 1], i32>) -> !tiny.tensor<[V, D], f32> {
  %0 = tiny.scatter add %x, %u at [%i] axes [0] : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[V, D], f32>
  %1 = tiny.scatter set %0, %v at [%j, %k] axes [0, 1] {note = "kept"} : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[M, 1], f32>, !tiny.tensor<[M, 1], ui8>, !tiny.tensor<[M, 1], i32>) -> !tiny.tensor<[V, D], f32>
  tiny.output %1 : !tiny.tensor<[V, D], f32>
}

// CHECK: %0 = tiny.scatter mul %x, %u at [%u] axes [0] : (!tiny.tensor<[V], i8>, !tiny.tensor<[N], i8>, !tiny.tensor<[N], i8>) -> !tiny.tensor<[V], i8>
// CHECK-NEXT: %1 = tiny.scatter max %0, %u at [%u] axes [0] : (!tiny.tensor<[V], i8>, !tiny.tensor<[N], i8>, !tiny.tensor<[N], i8>) -> !tiny.tensor<[V], i8>
// CHECK-NEXT: %2 = tiny.scatter min %1, %u at [%u] axes [0] : (!tiny.tensor<[V], i8>, !tiny.tensor<[N], i8>, !tiny.tensor<[N], i8>) -> !tiny.tensor<[V], i8>
tiny.graph @integers(%x: !tiny.tensor<[V], i8>, %u: !tiny.tensor<[N], i8>) -> !tiny.tensor<[V], i8> {
  %0 = tiny.scatter mul %x, %u at [%u] axes [0] : (!tiny.tensor<[V], i8>, !tiny.tensor<[N], i8>, !tiny.tensor<[N], i8>) -> !tiny.tensor<[V], i8>
  %1 = tiny.scatter max %0, %u at [%u] axes [0] : (!tiny.tensor<[V], i8>, !tiny.tensor<[N], i8>, !tiny.tensor<[N], i8>) -> !tiny.tensor<[V], i8>
  %2 = tiny.scatter min %1, %u at [%u] axes [0] : (!tiny.tensor<[V], i8>, !tiny.tensor<[N], i8>, !tiny.tensor<[N], i8>) -> !tiny.tensor<[V], i8>
  tiny.output %2 : !tiny.tensor<[V], i8>
}
