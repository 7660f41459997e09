// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// Each text breaks one rule of gpu.scan; the message says which, with the values.

// CHECK: error[InvalidIR]: a scan is sum, prod, max, min, not "mean"
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    %f = gpu.fragment : !gpu.fragment<[4, 256], f32>
    gpu.scan mean %f axis 1 : !gpu.fragment<[4, 256], f32>
    gpu.return
  }
}

// -----

// CHECK: error[InvalidIR]: axis 2 of a scan is none of !gpu.fragment<[4, 256], f32>, which has 2
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    %f = gpu.fragment : !gpu.fragment<[4, 256], f32>
    gpu.scan sum %f axis 2 : !gpu.fragment<[4, 256], f32>
    gpu.return
  }
}

// -----

// CHECK: error[InvalidIR]: the carry of a scan along axis 1 of !gpu.fragment<[4, 256], f32> has the sizes [4, 1] and its element type, and this is !gpu.fragment<[4, 2], f32>
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    %f = gpu.fragment : !gpu.fragment<[4, 256], f32>
    %c = gpu.fragment : !gpu.fragment<[4, 2], f32>
    gpu.scan sum %f axis 1 carry %c : !gpu.fragment<[4, 256], f32>, !gpu.fragment<[4, 2], f32>
    gpu.return
  }
}

// -----

// CHECK: error[InvalidIR]: the carry of a scan along axis 1 of !gpu.fragment<[4, 256], f32> has the sizes [4, 1] and its element type, and this is !gpu.fragment<[4, 1], i32>
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    %f = gpu.fragment : !gpu.fragment<[4, 256], f32>
    %c = gpu.fragment : !gpu.fragment<[4, 1], i32>
    gpu.scan sum %f axis 1 carry %c : !gpu.fragment<[4, 256], f32>, !gpu.fragment<[4, 1], i32>
    gpu.return
  }
}
