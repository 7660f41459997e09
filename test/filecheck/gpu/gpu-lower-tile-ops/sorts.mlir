// RUN: polyc-opt %s -p gpu-lower-tile-ops | filecheck %s

// A network of comparisons: a warp does the first levels by itself, in registers, and of each level
// that is wider a thread does several steps with what it reads once, and meets the others after them.
!keys = !gpu.fragment<[1, 64], i64, #gpu.fragment_layout<threads 32, registers 2, affine_map<(t, r) -> (0, t * 2 + r)>>>
gpu.module @m arch "sm_90a" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @row
  gpu.kernel @row(%m: index = symbol M) threads 32 {
    %row = gpu.shared_tile at 0 : !gpu.shared<[1, 64], i32>
    // CHECK: gpu.barrier
    // CHECK: %thread = gpu.thread_id
    // CHECK: scf.for %start =
    // CHECK: gpu.load_shared {{.*}} : i32
    // CHECK: gpu.shuffle "xor" {{.*}} : i32 -> i32
    // CHECK: arith.cmpi ult
    // CHECK: gpu.store_shared
    // CHECK: gpu.barrier
    // CHECK: scf.for %level =
    gpu.sort %row[] count %m unsigned : !gpu.shared<[1, 64], i32>
    gpu.return
  }

  // In memory it is the same one.
  // CHECK-LABEL: gpu.kernel @memory
  gpu.kernel @memory(%X: !gpu.global<[M, N], i64> = tensor 0, %m: index = symbol M) threads 32 {
    // CHECK: gpu.load_global %X[%m, {{%.*}} : index, index]
    // CHECK: arith.cmpi slt
    // CHECK: gpu.store_global {{%.*}}, %X[%m, {{%.*}} : index, index]
    gpu.sort %X[%m] count %m : !gpu.global<[M, N], i64>
    gpu.return
  }

  // Threads ask each other whether there is room, and then bring what is below the bound.
  // CHECK-LABEL: gpu.kernel @pool
  gpu.kernel @pool(%m: index = symbol M) threads 32 {
    %pool = gpu.shared_tile at 0 : !gpu.shared<[1, 129], i64>
    %held = gpu.shared_tile at 0 : !gpu.shared<[1, 1], i32>
    %keys = gpu.fragment : !keys
    // CHECK: gpu.barrier
    // CHECK: gpu.store_shared
    gpu.keep_none %pool, %held : !gpu.shared<[1, 129], i64>, !gpu.shared<[1, 1], i32>
    // CHECK: [[FULL:%.*]] = gpu.barrier_any
    // CHECK-NEXT: scf.if [[FULL]]
    // CHECK: gpu.fetch_add_shared
    // CHECK: gpu.store_shared
    gpu.keep_least %keys into %pool, %held keep 8 : !keys, !gpu.shared<[1, 129], i64>, !gpu.shared<[1, 1], i32>
    gpu.kept %pool, %held fill 32 : !gpu.shared<[1, 129], i64>, !gpu.shared<[1, 1], i32>
    gpu.return
  }
}
