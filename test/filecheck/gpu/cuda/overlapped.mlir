// RUN: polyc-opt %s -t cuda | filecheck %s

// A launch that overlaps the one ahead of it: the kernel waits before it touches a tensor, and lets
// the next one begin.
// CHECK: asm volatile("griddepcontrol.launch_dependents;"
// CHECK: asm volatile("griddepcontrol.wait;
// CHECK-NEXT: "fence.acq_rel.cta;"
gpu.module @m arch "sm_90a" symbols [M] {
  // CHECK: first(
  // CHECK-NEXT: let_next_launch_begin();
  // CHECK-NEXT: }
  gpu.kernel @first(%M: index = symbol M) threads 32 {
    gpu.return
  }
  // Barriers are made while the launch ahead still runs, and a load under a condition waits with
  // the condition.
  // CHECK: second(
  // CHECK: mbarrier_init(
  // CHECK: __syncthreads();
  // CHECK-NEXT: bool first =
  // CHECK-NEXT: wait_for_launch_before();
  // CHECK-NEXT: let_next_launch_begin();
  // CHECK-NEXT: if (first) {
  // CHECK: load_global
  gpu.kernel @second(%A: !gpu.global<[M], f32> = tensor 0, %M: index = symbol M)
      threads 32 attributes {shared_bytes = 8 : index} {
    %full = gpu.mbarrier at 0 : !gpu.mbarrier<1>
    %thread = gpu.thread_id
    %zero = arith.constant 0 : index
    gpu.mbarrier_init %full[%zero] count 1 : !gpu.mbarrier<1>
    gpu.barrier
    %first = arith.cmpi eq, %thread, %zero : index
    scf.if %first {
      %x = gpu.load_global %A[%zero : index] : !gpu.global<[M], f32> -> f32
      gpu.store_global %x, %A[%zero : index] : f32, !gpu.global<[M], f32>
    }
    gpu.return
  }
  // Without an access it waits too: who waits for it counts on that.  What is called next may begin.
  // CHECK: last(
  // CHECK-NEXT: wait_for_launch_before();
  // CHECK-NEXT: let_next_launch_begin();
  // CHECK-NEXT: }
  gpu.kernel @last(%M: index = symbol M) threads 32 {
    gpu.return
  }
  // CHECK: apart(
  // CHECK-NEXT: }
  gpu.kernel @apart(%M: index = symbol M) threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.launch @apart grid [M]
      gpu.launch @first grid [M]
      gpu.launch @second grid [M] overlapped
      gpu.launch @last grid [M] overlapped
    }
  }
}
