// RUN: polyc-opt %s -p gpu-set-max-registers | filecheck %s
// RUN: polyc-opt %s -p gpu-set-max-registers,gpu-set-max-registers | filecheck %s

// A CTA of 384 threads starts with 168 registers a thread: the producer gives some to the
// consumers, which are two.

gpu.module @m arch "sm_90a" symbols [] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k() threads 384 {
    // CHECK-NEXT: gpu.roles consumers 2 registers [0, 0] single_thread producer {
    // CHECK-NEXT:   gpu.set_max_registers "decrease" 40
    // CHECK-NEXT:   gpu.barrier
    // CHECK:      } consumer {
    // CHECK-NEXT:   gpu.set_max_registers "increase" 232
    // CHECK-NEXT:   gpu.barrier
    gpu.roles consumers 2 registers [40, 232] single_thread producer {
      gpu.barrier
      gpu.yield
    } consumer {
      gpu.barrier
      gpu.yield
    }
    gpu.return
  }
  // Without budgets nothing changes.
  // CHECK-LABEL: gpu.kernel @as_they_come
  // CHECK-NOT: gpu.set_max_registers
  gpu.kernel @as_they_come() threads 384 {
    gpu.roles consumers 2 registers [0, 0] producer {
      gpu.yield
    } consumer {
      gpu.yield
    }
    gpu.return
  }
}
