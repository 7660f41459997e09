// RUN: polyc-opt %s -p gpu-bind-ifs | filecheck %s
// RUN: polyc-opt %s -p gpu-bind-ifs,gpu-pipeline-planning | filecheck %s --check-prefix STAGES

// A branch of a pipeline's body becomes one guard a statement, in order, with what each statement
// needs; the other side gets the opposite condition.  A branch outside of a pipeline stays.

gpu.module @m arch "sm_80" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %S: !gpu.global<[K], i32> = tensor 1, %M: index = symbol M, %K: index = symbol K) threads 32 {
    %nothing = arith.constant 0 : i32
    %a = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %b = gpu.shared_tile : !gpu.shared<[16, 16], f16>
    %acc = gpu.fragment : !gpu.fragment<[16, 16], f32>
    // CHECK: gpu.pipeline
    gpu.pipeline %k, %i = to %K step 16 stages 4 {
      // CHECK-NEXT:  %block = gpu.load_global
      // CHECK-NEXT:  %used = arith.cmpi
      // CHECK-NEXT:  scf.if %used {
      // CHECK-NEXT:    %row = affine.apply
      // CHECK-NEXT:    gpu.copy %A[%row, %k] to %a :
      // CHECK-NEXT:  }
      // CHECK-NEXT:  scf.if %used {
      // CHECK-NEXT:    gpu.copy %A[%M, %k] to %b :
      // CHECK-NEXT:  }
      // CHECK-NEXT:  scf.if %used {
      // CHECK-NEXT:    gpu.contract %a
      // CHECK-NEXT:  }
      // CHECK-NEXT:  %{{.*}} = arith.constant true
      // CHECK-NEXT:  %otherwise = arith.xori %used
      // CHECK-NEXT:  scf.if %otherwise {
      // CHECK-NEXT:    %one = arith.constant
      // CHECK-NEXT:    gpu.fill
      // CHECK-NEXT:  }
      // CHECK-NEXT:}
      // STAGES:      scf.if %used {
      // STAGES-NEXT:   %row = affine.apply
      // STAGES-NEXT:   gpu.copy %A[%row, %k] to %a loader "cp_async" stage 0
      // STAGES:      scf.if %used {
      // STAGES-NEXT:   gpu.copy %A[%M, %k] to %b loader "cp_async" stage 0
      // STAGES:      scf.if %used {
      // STAGES-NEXT:   gpu.contract
      // STAGES-SAME:   stage 3
      %block = gpu.load_global %S[%i : index] : !gpu.global<[K], i32> -> i32
      %used = arith.cmpi ne, %block, %nothing : i32
      scf.if %used {
        %row = affine.apply affine_map<(d0) -> (d0 + 16)> (%M)
        gpu.copy %A[%row, %k] to %a : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 16], f16>
        gpu.copy %A[%M, %k] to %b : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 16], f16>
        gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %acc mma "mma.sync" warp_tile <16, 16> : !gpu.shared<[16, 16], f16>, !gpu.shared<[16, 16], f16>, !gpu.fragment<[16, 16], f32>
      } else {
        %one = arith.constant 1.0 : f32
        gpu.fill %one, %acc : !gpu.fragment<[16, 16], f32>
      }
    }
    // CHECK:       scf.if %any {
    // CHECK-NEXT:    gpu.copy
    // CHECK-NEXT:    gpu.copy
    // CHECK-NEXT:  }
    %any = arith.cmpi slt, %M, %K : index
    scf.if %any {
      gpu.copy %A[%M, %M] to %a : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 16], f16>
      gpu.copy %A[%M, %M] to %b : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 16], f16>
    }
    gpu.return
  }
}
