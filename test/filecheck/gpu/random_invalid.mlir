// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %x = arith.constant 1 : i32
    // CHECK: error{{.*}}i32
    %s = "gpu.philox"(%x, %x) : (i32, i32) -> i64
    gpu.return
  }
}
