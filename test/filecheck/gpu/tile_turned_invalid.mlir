// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: [96, 32] is no part of [64, 96], nor the other way, at [0, 0]; a window says where the smaller tile begins in the larger
gpu.module @m arch "sm_90a" symbols [] {
  gpu.kernel @k(%Y: !gpu.global<[4, 96, 196], f16, align 8> = tensor 0) threads 128 {
    %zero = arith.constant 0 : index
    %f = gpu.fragment : !gpu.fragment<[64, 96], f16>
    %s = gpu.shared_tile : !gpu.shared<[32, 96], f16>
    gpu.copy %f to %s turned : !gpu.fragment<[64, 96], f16>, !gpu.shared<[32, 96], f16>
    gpu.return
  }
}

// -----

// CHECK: a fragment goes turned to a tile of it or of a part of it, and !gpu.shared<[96, 128], f16> is larger than !gpu.fragment<[64, 96], f16>
gpu.module @m arch "sm_90a" symbols [] {
  gpu.kernel @k(%Y: !gpu.global<[4, 96, 196], f16, align 8> = tensor 0) threads 128 {
    %zero = arith.constant 0 : index
    %f = gpu.fragment : !gpu.fragment<[64, 96], f16>
    %s = gpu.shared_tile : !gpu.shared<[96, 128], f16>
    gpu.copy %f to %s window <0, 0> turned : !gpu.fragment<[64, 96], f16>, !gpu.shared<[96, 128], f16>
    gpu.return
  }
}

// -----

// CHECK: what wraps is a store of a shared tile of two axes, not a copy of !gpu.global<[4, 96, 196], f16, align 8> to !gpu.shared<[96, 64], f16>
gpu.module @m arch "sm_90a" symbols [] {
  gpu.kernel @k(%Y: !gpu.global<[4, 96, 196], f16, align 8> = tensor 0) threads 128 {
    %zero = arith.constant 0 : index
    %f = gpu.fragment : !gpu.fragment<[64, 96], f16>
    %s = gpu.shared_tile : !gpu.shared<[96, 64], f16>
    gpu.copy %Y[%zero, %zero, %zero] to %s wraps 0 loader "register" : !gpu.global<[4, 96, 196], f16, align 8>, !gpu.shared<[96, 64], f16>
    gpu.return
  }
}

// -----

// CHECK: columns of a tile go on across an axis of the tensor that the tile does not run along, not across 1, beside [1, 2] of 3 axes
gpu.module @m arch "sm_90a" symbols [] {
  gpu.kernel @k(%Y: !gpu.global<[4, 96, 196], f16, align 8> = tensor 0) threads 128 {
    %zero = arith.constant 0 : index
    %f = gpu.fragment : !gpu.fragment<[64, 96], f16>
    %s = gpu.shared_tile : !gpu.shared<[96, 64], f16>
    gpu.copy %s to %Y[%zero, %zero, %zero] wraps 1 loader "register" : !gpu.shared<[96, 64], f16>, !gpu.global<[4, 96, 196], f16, align 8>
    gpu.return
  }
}

// -----

// CHECK: columns of a tile go on across an axis of the tensor that the tile does not run along, not across 3, beside [1, 2] of 3 axes
gpu.module @m arch "sm_90a" symbols [] {
  gpu.kernel @k(%Y: !gpu.global<[4, 96, 196], f16, align 8> = tensor 0) threads 128 {
    %zero = arith.constant 0 : index
    %f = gpu.fragment : !gpu.fragment<[64, 96], f16>
    %s = gpu.shared_tile : !gpu.shared<[96, 64], f16>
    gpu.copy %s to %Y[%zero, %zero, %zero] wraps 3 loader "register" : !gpu.shared<[96, 64], f16>, !gpu.global<[4, 96, 196], f16, align 8>
    gpu.return
  }
}
