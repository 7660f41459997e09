// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// Sorts of a row where it lies, and pools of the least of what goes by.
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @sorts(%X: !gpu.global<[M, N], i64> = tensor 0, %m: index = symbol M) threads 32 {
    %row = gpu.shared_tile at 0 : !gpu.shared<[1, 64], i32>
    %pool = gpu.shared_tile at 0 : !gpu.shared<[1, 129], i64>
    %held = gpu.shared_tile at 0 : !gpu.shared<[1, 1], i32>
    %keys = gpu.fragment : !gpu.fragment<[1, 64], i64>
    // CHECK: gpu.sort %row[] count %m : !gpu.shared<[1, 64], i32>
    gpu.sort %row[] count %m : !gpu.shared<[1, 64], i32>
    // CHECK-NEXT: gpu.sort %X[%m] count %m unsigned {note = "kept"} : !gpu.global<[M, N], i64>
    gpu.sort %X[%m] count %m unsigned {note = "kept"} : !gpu.global<[M, N], i64>
    // CHECK-NEXT: gpu.sort %X[%m] axis 0 count %m : !gpu.global<[M, N], i64>
    gpu.sort %X[%m] axis 0 count %m : !gpu.global<[M, N], i64>
    // CHECK-NEXT: gpu.sort %row[] count %m by <8, 20> unsigned : !gpu.shared<[1, 64], i32>
    gpu.sort %row[] count %m by <8, 20> unsigned : !gpu.shared<[1, 64], i32>
    // CHECK-NEXT: gpu.keep_none %pool, %held : !gpu.shared<[1, 129], i64>, !gpu.shared<[1, 1], i32>
    gpu.keep_none %pool, %held : !gpu.shared<[1, 129], i64>, !gpu.shared<[1, 1], i32>
    // CHECK-NEXT: gpu.keep_least %keys into %pool, %held keep 8 : !gpu.fragment<[1, 64], i64>, !gpu.shared<[1, 129], i64>, !gpu.shared<[1, 1], i32>
    gpu.keep_least %keys into %pool, %held keep 8 : !gpu.fragment<[1, 64], i64>, !gpu.shared<[1, 129], i64>, !gpu.shared<[1, 1], i32>
    // CHECK-NEXT: gpu.keep_least %keys into %pool, %held keep 8 above 16 unsigned : !gpu.fragment<[1, 64], i64>, !gpu.shared<[1, 129], i64>, !gpu.shared<[1, 1], i32>
    gpu.keep_least %keys into %pool, %held keep 8 above 16 unsigned : !gpu.fragment<[1, 64], i64>, !gpu.shared<[1, 129], i64>, !gpu.shared<[1, 1], i32>
    // CHECK-NEXT: gpu.kept %pool, %held fill 32 unsigned : !gpu.shared<[1, 129], i64>, !gpu.shared<[1, 1], i32>
    gpu.kept %pool, %held fill 32 unsigned : !gpu.shared<[1, 129], i64>, !gpu.shared<[1, 1], i32>
    gpu.return
  }
}

// What blocks do that sort a row digit by digit.
gpu.module @d arch "sm_90a" symbols [M, N, T] {
  gpu.kernel @digits(%X: !gpu.global<[M, N], i64> = tensor 0, %C: !gpu.global<[M, T, 256], i32> = workspace "c", %S: !gpu.global<[M, 256], i32> = workspace "s", %m: index = symbol M) threads 256 {
    %row = gpu.shared_tile at 0 : !gpu.shared<[1, 512], i64>
    // CHECK: gpu.count_digit %row count %m by <32, 40> unsigned to %C[%m, %m] : !gpu.shared<[1, 512], i64>, !gpu.global<[M, T, 256], i32>
    gpu.count_digit %row count %m by <32, 40> unsigned to %C[%m, %m] : !gpu.shared<[1, 512], i64>, !gpu.global<[M, T, 256], i32>
    // CHECK-NEXT: gpu.sum_counts %C[%m] first %m of %m to %S : !gpu.global<[M, T, 256], i32>, !gpu.global<[M, 256], i32>
    gpu.sum_counts %C[%m] first %m of %m to %S : !gpu.global<[M, T, 256], i32>, !gpu.global<[M, 256], i32>
    // CHECK-NEXT: gpu.move_by_digit %row count %m by <56, 64> from %C, %S[%m] tile %m to %X[%m] axis 0 : !gpu.shared<[1, 512], i64>, !gpu.global<[M, T, 256], i32>, !gpu.global<[M, 256], i32>, !gpu.global<[M, N], i64>
    gpu.move_by_digit %row count %m by <56, 64> from %C, %S[%m] tile %m to %X[%m] axis 0 : !gpu.shared<[1, 512], i64>, !gpu.global<[M, T, 256], i32>, !gpu.global<[M, 256], i32>, !gpu.global<[M, N], i64>
    // CHECK-NEXT: %bases
    %bases = gpu.shared_tile at 4096 : !gpu.shared<[1, 256], i32>
    // CHECK-NEXT: gpu.sort_by_digit %row count %m by <56, 64> unsigned from %C, %S[%m] tile %m to %bases : !gpu.shared<[1, 512], i64>, !gpu.global<[M, T, 256], i32>, !gpu.global<[M, 256], i32>, !gpu.shared<[1, 256], i32>
    gpu.sort_by_digit %row count %m by <56, 64> unsigned from %C, %S[%m] tile %m to %bases : !gpu.shared<[1, 512], i64>, !gpu.global<[M, T, 256], i32>, !gpu.global<[M, 256], i32>, !gpu.shared<[1, 256], i32>
    gpu.return
  }
}
