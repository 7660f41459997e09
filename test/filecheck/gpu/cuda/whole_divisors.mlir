// RUN: polyc-opt %s -t cuda | filecheck %s

// By a whole number that is known a quotient takes no branch; a power of two the compiler inverts.
// CHECK: float divide_by_whole(float a, float b) {
// CHECK-NEXT: float inverse = 1.0f / b, near = a * inverse, rest = fmaf(-near, b, a);
// CHECK-NEXT: return fabsf(rest) > 0.0f ? fmaf(rest, inverse, near) : near;
// CHECK: = divide_by_whole(x, 9.0f)
// CHECK: = divide_by_whole(a, -12.0f)
// CHECK: = b / 8.0f
// CHECK: = c / 2.5f
// CHECK: = d / 4194305.0f
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%X: !gpu.global<[M], f32> = tensor 0, %Y: !gpu.global<[M], f32> = tensor 1) threads 32 {
    %c0 = arith.constant 0 : index
    %x = gpu.load_global %X[%c0 : index] : !gpu.global<[M], f32> -> f32
    %nine = arith.constant 9.0 : f32
    %a = arith.divf %x, %nine : f32
    %twelve = arith.constant -12.0 : f32
    %b = arith.divf %a, %twelve : f32
    %eight = arith.constant 8.0 : f32
    %c = arith.divf %b, %eight : f32
    %part = arith.constant 2.5 : f32
    %d = arith.divf %c, %part : f32
    %large = arith.constant 4194305.0 : f32
    %e = arith.divf %d, %large : f32
    gpu.store_global %e, %Y[%c0 : index] : f32, !gpu.global<[M], f32>
    gpu.return
  }
}
