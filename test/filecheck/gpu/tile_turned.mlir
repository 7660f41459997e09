// RUN: polyc-opt %s | polyc-opt | filecheck %s

// A fragment goes to a shared tile transposed, and columns of a tile go on in the next image.
gpu.module @m arch "sm_90a" symbols [] {
  gpu.kernel @k(%Y: !gpu.global<[4, 96, 196], f16, align 8> = tensor 0) threads 128 {
    %zero = arith.constant 0 : index
    %f = gpu.fragment : !gpu.fragment<[64, 96], f16>
    %s = gpu.shared_tile : !gpu.shared<[32, 64], f16>
    %t = gpu.shared_tile : !gpu.shared<[96, 64], f16>
    // CHECK: gpu.copy %f to %s window <0, 64> turned : !gpu.fragment<[64, 96], f16>, !gpu.shared<[32, 64], f16>
    gpu.copy %f to %s window <0, 64> turned : !gpu.fragment<[64, 96], f16>, !gpu.shared<[32, 64], f16>
    // CHECK-NEXT: gpu.copy %f to %t turned : !gpu.fragment<[64, 96], f16>, !gpu.shared<[96, 64], f16>
    gpu.copy %f to %t turned : !gpu.fragment<[64, 96], f16>, !gpu.shared<[96, 64], f16>
    // CHECK-NEXT: gpu.copy %t to %Y[%zero, %zero, %zero] wraps 0 loader "register" : !gpu.shared<[96, 64], f16>, !gpu.global<[4, 96, 196], f16, align 8>
    gpu.copy %t to %Y[%zero, %zero, %zero] wraps 0 loader "register" : !gpu.shared<[96, 64], f16>, !gpu.global<[4, 96, 196], f16, align 8>
    gpu.return
  }
}
