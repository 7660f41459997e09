// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: pages are of a load of a tensor by threads, to a tile that lies as the tensor does; use cp_async or register, or a copy for each page
gpu.module @m arch "sm_90a" symbols [P] {
  gpu.kernel @k(%A: !gpu.global<[P, 16, 64], f16, align 16> = tensor 0, %P: index = symbol P) threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[48, 64], f16>
    gpu.copy %A[%P, %P, %P] to %a pages [%P, %P] across 0 loader "tma" : !gpu.global<[P, 16, 64], f16, align 16>, !gpu.shared<[48, 64], f16>
    gpu.return
  }
}

// -----

// CHECK: pages are of a load of a tensor by threads, to a tile that lies as the tensor does; use cp_async or register, or a copy for each page
gpu.module @m arch "sm_90a" symbols [P] {
  gpu.kernel @k(%A: !gpu.global<[P, 16, 64], f16, align 16> = tensor 0, %P: index = symbol P) threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[48, 64], f16>
    gpu.copy %a to %A[%P, %P, %P] pages [%P, %P] across 0 : !gpu.shared<[48, 64], f16>, !gpu.global<[P, 16, 64], f16, align 16>
    gpu.return
  }
}

// -----

// CHECK: pages lie across an axis of the tensor that the tile does not run along, not across 1, beside [1, 2] of 3 axes
gpu.module @m arch "sm_90a" symbols [P] {
  gpu.kernel @k(%A: !gpu.global<[P, 16, 64], f16, align 16> = tensor 0, %P: index = symbol P) threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[48, 64], f16>
    gpu.copy %A[%P, %P, %P] to %a pages [%P, %P] across 1 : !gpu.global<[P, 16, 64], f16, align 16>, !gpu.shared<[48, 64], f16>
    gpu.return
  }
}

// -----

// CHECK: pages lie across an axis of the tensor that the tile does not run along, not across 3, beside [1, 2] of 3 axes
gpu.module @m arch "sm_90a" symbols [P] {
  gpu.kernel @k(%A: !gpu.global<[P, 16, 64], f16, align 16> = tensor 0, %P: index = symbol P) threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[48, 64], f16>
    gpu.copy %A[%P, %P, %P] to %a pages [%P] across 3 : !gpu.global<[P, 16, 64], f16, align 16>, !gpu.shared<[48, 64], f16>
    gpu.return
  }
}

// -----

// CHECK: 48 rows of a tile are no 5 runs of equal length, one a page
gpu.module @m arch "sm_90a" symbols [P] {
  gpu.kernel @k(%A: !gpu.global<[P, 16, 64], f16, align 16> = tensor 0, %P: index = symbol P) threads 128 {
    %a = gpu.shared_tile : !gpu.shared<[48, 64], f16>
    gpu.copy %A[%P, %P, %P] to %a pages [%P, %P, %P, %P] across 0 : !gpu.global<[P, 16, 64], f16, align 16>, !gpu.shared<[48, 64], f16>
    gpu.return
  }
}
