// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// CHECK: %0 = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[V, D], f16>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f16>
// CHECK-NEXT: %1 = tiny.gather %0 at [%j, %k] axes [0, 1] fill -0.5 {note = "kept"} : (!tiny.tensor<[N, D], f16>, !tiny.tensor<[M, 1], ui8>, !tiny.tensor<[M, 1], i32>) -> !tiny.tensor<[M, 1], f16>
tiny.graph @floats(%x: !tiny.tensor<[V, D], f16>, %i: !tiny.tensor<[N, D], i64>, %j: !tiny.tensor<[M, 1], ui8>, %k: !tiny.tensor<[M, 1], i32>) -> !tiny.tensor<[M, 1], f16> {
  %0 = tiny.gather %x at [%i] axes [0] clamp : (!tiny.tensor<[V, D], f16>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f16>
  %1 = tiny.gather %0 at [%j, %k] axes [0, 1] fill -0.5 {note = "kept"} : (!tiny.tensor<[N, D], f16>, !tiny.tensor<[M, 1], ui8>, !tiny.tensor<[M, 1], i32>) -> !tiny.tensor<[M, 1], f16>
  tiny.output %1 : !tiny.tensor<[M, 1], f16>
}

// CHECK: %0 = tiny.gather %x at [%i] axes [0] fill -128 : (!tiny.tensor<[V], i8>, !tiny.tensor<[N], i8>) -> !tiny.tensor<[N], i8>
// CHECK-NEXT: %1 = tiny.gather %y at [%0] axes [0] fill 1.0 : (!tiny.tensor<[V], i1>, !tiny.tensor<[N], i8>) -> !tiny.tensor<[N], i1>
tiny.graph @others(%x: !tiny.tensor<[V], i8>, %y: !tiny.tensor<[V], i1>, %i: !tiny.tensor<[N], i8>) -> !tiny.tensor<[N], i1> {
  %0 = tiny.gather %x at [%i] axes [0] fill -128 : (!tiny.tensor<[V], i8>, !tiny.tensor<[N], i8>) -> !tiny.tensor<[N], i8>
  %1 = tiny.gather %y at [%0] axes [0] fill 1.0 : (!tiny.tensor<[V], i1>, !tiny.tensor<[N], i8>) -> !tiny.tensor<[N], i1>
  tiny.output %1 : !tiny.tensor<[N], i1>
}
