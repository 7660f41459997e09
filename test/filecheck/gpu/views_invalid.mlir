// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: kernel @k binds tensor 0 of !gpu.global<[N, H, F], f16> as !gpu.global<[N, F], f16>, and [N, F] is no view of [N, H, F]: consecutive sizes are merged and split, and none moves
gpu.module @m arch "sm_80" symbols [N, H, F] {
  gpu.kernel @k(%Y: !gpu.global<[N, F], f16> = tensor 0) threads 32 {
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[N, H, F], f16>) {
    gpu.launch @k align [2] grid [N]
  }
}

// -----

// As many elements, in another order: an axis moves.
// CHECK: kernel @k binds tensor 0 of !gpu.global<[N, H, F], f16> as !gpu.global<[F * N, H], f16>, and [F * N, H] is no view of [N, H, F]
gpu.module @m arch "sm_80" symbols [N, H, F] {
  gpu.kernel @k(%Y: !gpu.global<[F * N, H], f16> = tensor 0) threads 32 {
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[N, H, F], f16>) {
    gpu.launch @k align [2] grid [N]
  }
}

// -----

// A part of an axis moves.
// CHECK: and [F * N, H] is no view of [H * N, F]
gpu.module @m arch "sm_80" symbols [N, H, F] {
  gpu.kernel @k(%Y: !gpu.global<[F * N, H], f16> = tensor 0) threads 32 {
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[H * N, F], f16>) {
    gpu.launch @k align [2] grid [N]
  }
}

// -----

// CHECK: kernel @k binds tensor 0 of !gpu.global<[N], f16> as !gpu.global<[N], f32>; a view has the same elements
gpu.module @m arch "sm_80" symbols [N] {
  gpu.kernel @k(%Y: !gpu.global<[N], f32> = tensor 0) threads 32 {
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[N], f16>) {
    gpu.launch @k align [2] grid [N]
  }
}

// -----

// CHECK: kernel @k binds tensor 0 of !gpu.global<[N, H, F], f16> as !gpu.tensor_map<[64, 64], f16, swizzle 128>, and boxes of 2 axes do not fit [N, H, F]
gpu.module @m arch "sm_90a" symbols [N, H, F] {
  gpu.kernel @k(%Y: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map 0) threads 32 {
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[N, H, F], f16>) {
    gpu.launch @k align [16] grid [N]
  }
}

// -----

// CHECK: kernel @k binds the workspace "w" of !gpu.global<[N, F], f16> as !gpu.tensor_map<[64], f16, swizzle 128>, and [N] is no view of [N, F]
gpu.module @m arch "sm_90a" symbols [N, F] {
  gpu.kernel @k(%w: !gpu.tensor_map<[64], f16, swizzle 128> = tensor_map "w" view [N]) threads 32 {
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[N], f16>) {
    gpu.sequence @s align [16] {
      gpu.workspace "w" : !gpu.global<[N, F], f16>
      gpu.launch @k grid [N]
    }
  }
}

// -----

// CHECK: kernel @k binds tensor 0 of !gpu.global<[N], f16> as index, which is no tensor and no tensor map
gpu.module @m arch "sm_80" symbols [N] {
  gpu.kernel @k(%Y: index = tensor 0) threads 32 {
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[N], f16>) {
    gpu.launch @k align [2] grid [N]
  }
}
