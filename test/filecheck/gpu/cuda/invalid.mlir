// RUN: polyc-opt %s -t cuda --split-input-file --verify-diagnostics | filecheck %s

// CHECK: invalid.mlir:7:5: error[NotLowered]: gpu.load_global names 2 coordinates of a tensor; run gpu-linearize-access first
gpu.module @m arch "sm_80" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16> = tensor 0, %i: index = symbol M) threads 32 {
    %a = arith.constant 0 : i32
    %x = gpu.load_global %A[%i, %i : index, index] : !gpu.global<[M, K], f16> -> f16
    gpu.store_shared %x, %a : f16
    gpu.return
  }
}

// -----

// CHECK: error[NotLowered]: gpu.shared_tile has no offset; run gpu-plan-shared-memory first
gpu.module @m arch "sm_80" symbols [] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %t = gpu.shared_tile : !gpu.shared<[8, 8], f16>
    %a = gpu.shared_address %t[%i] : !gpu.shared<[8, 8], f16>
    gpu.store_shared %a, %a : i32
    gpu.return
  }
}

// -----

// CHECK: error[NotLowered]: gpu.mbarrier has no offset; run gpu-plan-shared-memory first
gpu.module @m arch "sm_90a" symbols [] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %b = gpu.mbarrier : !gpu.mbarrier<1>
    gpu.mbarrier_arrive %b[%i] : !gpu.mbarrier<1>
    gpu.return
  }
}

// -----

// CHECK: error[NotLowered]: gpu.ring has no CUDA C; run gpu-lower-barriers first
gpu.module @m arch "sm_90a" symbols [] {
  gpu.kernel @k() threads 32 {
    %r = gpu.ring consumers 2 : !gpu.ring<4>
    gpu.return
  }
}

// -----

// CHECK: error[NotLowered]: memref.dealloc has no CUDA C; lower it first (lower-to-gpu runs every pass)
gpu.module @m arch "sm_80" symbols [] {
  gpu.kernel @k() threads 32 {
    %r = memref.alloca() : memref<4xf32, #gpu<space register>>
    memref.dealloc %r : memref<4xf32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: error[NotLowered]: arith.addf computes in f16; kernels compute in f32: extend the operands first
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%A: !gpu.global<[M], f16> = tensor 0, %i: index = symbol M) threads 32 {
    %c = arith.constant 0.5 : f16
    %x = arith.addf %c, %c : f16
    gpu.store_global %x, %A[%i : index] : f16, !gpu.global<[M], f16>
    gpu.return
  }
}

// -----

// CHECK: error[NotLowered]: arith.bitcast has a value of type f64; a kernel holds index, i1 to i64, f16, bf16, f32 and vectors of these
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%i: i64 = symbol M, %a: i32 = symbol M) threads 32 {
    %x = arith.bitcast %i : i64 to f64
    gpu.store_shared %x, %a : f64
    gpu.return
  }
}

// -----

// CHECK: error[NotLowered]: arith.bitcast takes the bits of i32 as index; it can change between i32 and f32, and among 16-bit types
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%a: i32 = symbol M) threads 32 {
    %x = arith.bitcast %a : i32 to index
    %y = arith.index_cast %x : index to i32
    gpu.store_shared %y, %a : i32
    gpu.return
  }
}

// -----

// CHECK: error[NotLowered]: memref.alloca allocates memref<4xf32, #gpu<space shared>>; a kernel allocates registers, as many as the type says
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%i: index = symbol M, %x: f32 = symbol M) threads 32 {
    %r = memref.alloca() : memref<4xf32, #gpu<space shared>>
    memref.store %x, %r[%i] : memref<4xf32, #gpu<space shared>>
    gpu.return
  }
}

// -----

// CHECK: error[BadName]: kernel @max cannot have this name in CUDA C; rename it
gpu.module @m arch "sm_80" symbols [] {
  gpu.kernel @max() threads 32 {
    gpu.return
  }
}

// -----

// CHECK: error[NotLowered]: there is no gpu.module to print; run lower-to-gpu first
%c = arith.constant 0 : index

// -----

// CHECK: error[NotLowered]: vector.bitcast turns vector<2xf32> into vector<2xi32>; both sides must be words of one kind: integers, f16 and bf16, or f32
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%A: !gpu.global<[M], f32, align 8> = tensor 0, %a: i32 = symbol M) threads 32 {
    %c0 = arith.constant 0 : index
    %x = gpu.load_global %A[%c0 : index] : !gpu.global<[M], f32, align 8> -> vector<2xf32>
    %y = vector.bitcast %x : vector<2xf32> to vector<2xi32>
    gpu.store_shared %y, %a : vector<2xi32>
    gpu.return
  }
}
