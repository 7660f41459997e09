// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// CHECK: frontend.graph @scans(%x: !frontend.tensor<[M, N], f16>, %n: !frontend.tensor<[N], ui8>) -> (out0: !frontend.tensor<[M, N], f16>, out1: !frontend.tensor<[N], ui8>) {
// CHECK-NEXT: %0 = frontend.scan sum %x axis 1 : !frontend.tensor<[M, N], f16>
// CHECK-NEXT: %1 = frontend.scan prod %0 axis 0 reverse : !frontend.tensor<[M, N], f16>
// CHECK-NEXT: %2 = frontend.scan max %1 axis 1 exclusive : !frontend.tensor<[M, N], f16>
// CHECK-NEXT: %3 = frontend.scan min %n axis 0 reverse exclusive {note = "kept"} : !frontend.tensor<[N], ui8>
// CHECK-NEXT: frontend.output %2, %3
frontend.graph @scans(%x: !frontend.tensor<[M, N], f16>, %n: !frontend.tensor<[N], ui8>) -> (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N], ui8>) {
  %0 = frontend.scan sum %x axis 1 : !frontend.tensor<[M, N], f16>
  %1 = frontend.scan prod %0 axis 0 reverse : !frontend.tensor<[M, N], f16>
  %2 = frontend.scan max %1 axis 1 exclusive : !frontend.tensor<[M, N], f16>
  %3 = frontend.scan min %n axis 0 reverse exclusive {note = "kept"} : !frontend.tensor<[N], ui8>
  frontend.output %2, %3 : !frontend.tensor<[M, N], f16>, !frontend.tensor<[N], ui8>
}
