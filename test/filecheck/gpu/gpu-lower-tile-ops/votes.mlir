// RUN: polyc-opt %s -p gpu-lower-tile-ops | filecheck %s

// Each thread asks its registers, and all threads that run the op each other.
!all = !gpu.fragment<[256], i1, #gpu.fragment_layout<threads 128, registers 2, affine_map<(t, r) -> (t * 2 + r)>>>
!few = !gpu.fragment<[64], i1, #gpu.fragment_layout<threads 64, registers 1, affine_map<(t, r) -> (t)>>>
!group = !gpu.fragment<[128], i1, #gpu.fragment_layout<threads 128, registers 1, affine_map<(t, r) -> (t)>>>
!y = !gpu.global<[M], i32>
gpu.module @m arch "sm_90a" symbols [M] {
  // CHECK-LABEL: gpu.kernel @whole
  gpu.kernel @whole(%Y: !y = tensor 0) threads 128 {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : i32
    %f = gpu.fragment : !all
    // CHECK: [[FIRST:%.*]] = memref.load %f[{{%.*}}]
    // CHECK: [[SECOND:%.*]] = memref.load %f[{{%.*}}]
    // CHECK-NEXT: [[EITHER:%.*]] = arith.ori [[FIRST]], [[SECOND]] : i1
    // CHECK-NEXT: [[ANY:%.*]] = gpu.barrier_any [[EITHER]] at 0 threads 128
    // CHECK-NEXT: scf.if [[ANY]]
    %any = gpu.any %f : !all
    scf.if %any {
      gpu.store_global %one, %Y[%zero : index] : i32, !y
    }
    gpu.return
  }

  // Threads that hold nothing of the fragment have no condition, and get the answer.
  // CHECK-LABEL: gpu.kernel @fewer
  gpu.kernel @fewer(%Y: !y = tensor 0) threads 128 {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : i32
    %f = gpu.fragment : !few
    // CHECK: [[HELD:%.*]] = memref.load %f[{{%.*}}]
    // CHECK-NEXT: %thread = gpu.thread_id
    // CHECK-NEXT: [[COUNT:%.*]] = arith.constant 64 : index
    // CHECK-NEXT: [[HOLDS:%.*]] = arith.cmpi slt, %thread, [[COUNT]] : index
    // CHECK-NEXT: [[HERE:%.*]] = arith.andi [[HOLDS]], [[HELD]] : i1
    // CHECK-NEXT: gpu.barrier_any [[HERE]] at 0 threads 128
    %any = gpu.any %f : !few
    scf.if %any {
      gpu.store_global %one, %Y[%zero : index] : i32, !y
    }
    gpu.return
  }

  // The threads of a role meet at a barrier of theirs.
  // CHECK-LABEL: gpu.kernel @role
  gpu.kernel @role(%Y: !y = tensor 0) threads 256 {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : i32
    gpu.roles consumers 1 registers [0, 0] producer {
      gpu.yield
    } consumer {
      %f = gpu.fragment : !group
      // CHECK: gpu.barrier_any {{%.*}} at 1 threads 128
      %any = gpu.any %f : !group
      scf.if %any {
        gpu.store_global %one, %Y[%zero : index] : i32, !y
      }
      gpu.yield
    }
    gpu.return
  }

  // And each independent consumer at one of its own.
  // CHECK-LABEL: gpu.kernel @independent
  gpu.kernel @independent(%Y: !y = tensor 0) threads 384 {
    %one = arith.constant 1 : i32
    gpu.roles consumers 2 independent registers [0, 0] producer {
      gpu.yield
    } consumer (%w) {
      %f = gpu.fragment : !group
      // CHECK: gpu.barrier_any {{%.*}} at 1 plus %w threads 128
      %any = gpu.any %f : !group
      scf.if %any {
        gpu.store_global %one, %Y[%w : index] : i32, !y
      }
      gpu.yield
    }
    gpu.return
  }
}
