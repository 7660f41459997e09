// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s
// RUN: polyc-opt %s -p tiny-to-index | filecheck %s --check-prefix INDEX

// CHECK-LABEL: tiny.graph @scans
// CHECK-NEXT: %0 = tiny.scan sum %x axis 1 : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %1 = tiny.scan max %0 axis 0 reverse exclusive own f16 {note = "kept"} : !tiny.tensor<[M, N], f32>
// CHECK-NEXT: %2 = tiny.scan prod %n axis 0 exclusive : !tiny.tensor<[N], ui8>

// The axis that a scan goes along is another one after it, and the one before is recorded.

// INDEX-LABEL: tiny.graph @scans
// INDEX: index.value %0 axes [i0(0): M, i1(3): N] reduce [n(1): N] box from [affine_map<(d0, d1, d2)[s0, s1] -> (d0, d2)>] : !tiny.tensor<[M, N], f32>
// INDEX: index.value %1 axes [i0(4): M, i1(3): N] reduce [m(0): M] box from [affine_map<(d0, d1, d2)[s0, s1] -> (d2, d1)>] : !tiny.tensor<[M, N], f32>
tiny.graph @scans(%x: !tiny.tensor<[M, N], f32>, %n: !tiny.tensor<[N], ui8>) -> (!tiny.tensor<[M, N], f32>, !tiny.tensor<[N], ui8>) {
  %0 = tiny.scan sum %x axis 1 : !tiny.tensor<[M, N], f32>
  %1 = tiny.scan max %0 axis 0 reverse exclusive own f16 {note = "kept"} : !tiny.tensor<[M, N], f32>
  %2 = tiny.scan prod %n axis 0 exclusive : !tiny.tensor<[N], ui8>
  tiny.output %1, %2 : !tiny.tensor<[M, N], f32>, !tiny.tensor<[N], ui8>
}

// A dimension of factors is walked as it lies in memory: a boundary.

// INDEX-LABEL: tiny.graph @lines
// INDEX: index.value %1 axes [i0({{[0-9]+}}): M * N] non_scop "a scan goes along M x N in one line"
// INDEX: tiny.scan sum %1 axis 0
tiny.graph @lines(%x: !tiny.tensor<[M, N], f32>) -> !tiny.tensor<[M * N], f32> {
  %0 = tiny.reshape %x : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M * N], f32>
  %1 = tiny.scan sum %0 axis 0 : !tiny.tensor<[M * N], f32>
  tiny.output %1 : !tiny.tensor<[M * N], f32>
}
