// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: the target of sm_80 is <shared_bytes 166912, registers 65536, threads 1024>, not <shared_bytes 232448, registers 65536, threads 1024>; gpu-bind-target writes it
gpu.module @m arch "sm_80" symbols [] target <shared_bytes 232448, registers 65536, threads 1024> {
}

// -----

// CHECK: Expected 'registers'
gpu.module @m arch "sm_80" symbols [] target <shared_bytes 166912, threads 1024> {
}

// -----

// CHECK: 2 : index should be of base attribute unit
gpu.module @m arch "sm_90a" symbols [] {
  gpu.kernel @k() threads 256 {
    "gpu.named_barrier"() <{id = 1 : index, threads = 256 : index, paces = 2 : index, operandSegmentSizes = array<i32: 0>}> : () -> ()
    gpu.return
  }
}

// -----

// CHECK: a packed fragment has two elements of 16 bits in a register, not of !gpu.fragment<[64, 64], f32>
gpu.module @m arch "sm_90a" symbols [] {
  gpu.kernel @k() threads 128 {
    %p = gpu.fragment packed : !gpu.fragment<[64, 64], f32>
    gpu.return
  }
}

// -----

// CHECK: a packed fragment has an even number of elements a thread, not 1
gpu.module @m arch "sm_90a" symbols [] {
  gpu.kernel @k() threads 32 {
    %p = gpu.fragment packed : !gpu.fragment<[4, 8], f16, #gpu.fragment_layout<threads 32, registers 1, affine_map<(t, r) -> (t floordiv 8, t mod 8)>>>
    gpu.return
  }
}

// -----

// CHECK: stage 2 is none: those of this pipeline are 0 to 1
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%A: !gpu.global<[M, M], f16> = tensor 0, %M: index = symbol M) threads 128 {
    %t = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    gpu.pipeline %k, %i = to %M step 64 stages 2 {
      gpu.copy %A[%k, %k] to %t loader "register" stage 2 : !gpu.global<[M, M], f16>, !gpu.shared<[64, 64], f16>
    }
    gpu.return
  }
}

// -----

// CHECK: stage 4 is none: those of this pipeline are 0 to 3
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    %t = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %acc = gpu.fragment : !gpu.fragment<[64, 64], f32>
    gpu.pipeline %k, %i = to %M step 64 stages 4 {
      %c = arith.cmpi slt, %i, %k : index
      scf.if %c {
        gpu.contract %t affine_map<(m, n, k) -> (m, k)>, %t affine_map<(m, n, k) -> (k, n)> into %acc mma "mma.sync" warp_tile <32, 32> stage 4 : !gpu.shared<[64, 64], f16>, !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f32>
      }
    }
    gpu.return
  }
}

// -----

// CHECK: stage -1 is none: those are 0 and up
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%A: !gpu.global<[M, M], f16> = tensor 0, %M: index = symbol M) threads 128 {
    %t = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    gpu.copy %A[%M, %M] to %t loader "register" stage -1 : !gpu.global<[M, M], f16>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}

// -----

// CHECK: a loop is unrolled whole, {unroll} without a value, not by 4 : index
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    %0 = arith.constant 0 : index
    %1 = arith.constant 1 : index
    scf.for %i = %0 to %M step %1 {
    } {unroll = 4 : index}
    gpu.return
  }
}

// -----

// CHECK: arith.addi is no scf.for, which alone may be unrolled
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    %1 = arith.addi %M, %M {unroll} : index
    gpu.return
  }
}

// -----

// CHECK: a loop is left as it is, {rolled} without a value, not by 1 : index
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    %0 = arith.constant 0 : index
    %1 = arith.constant 1 : index
    scf.for %i = %0 to %M step %1 {
    } {rolled = 1 : index}
    gpu.return
  }
}

// -----

// CHECK: a loop is unrolled whole, or left as it is, not both
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 128 {
    %0 = arith.constant 0 : index
    %1 = arith.constant 1 : index
    scf.for %i = %0 to %M step %1 {
    } {rolled, unroll}
    gpu.return
  }
}
