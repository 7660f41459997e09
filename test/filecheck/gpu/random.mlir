// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @numbers(%i: index = symbol M) threads 32 {
    %place = arith.constant 5 : i64
    %seed = arith.constant -1 : i64
    // CHECK: %r = gpu.philox %place, %seed : i64
    %r = gpu.philox %place, %seed : i64
    // CHECK: %v = gpu.philox %place, %seed multiple 2 {note = "kept"} : vector<8xi64>
    %v = gpu.philox %place, %seed multiple 2 {note = "kept"} : vector<8xi64>
    gpu.return
  }
}
