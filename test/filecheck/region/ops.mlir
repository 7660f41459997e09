// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// The GEMM of the specification's 6.8.1, with every broadcast written out.
region.kernel @gemm_bias_relu iters [m: M, n: N]
    ins(%A: !region.memref<[M, K], f16, align 16, noalias>, %B: !region.memref<[K, N], f16, align 16>, %bias: !region.memref<[N], f16, align 2> {role = "param", storage = "const_pool"})
    outs(C: !region.memref<[M, N], f16, align 16> gmem)
    assuming (K mod 8 == 0, M >= 1) {
  %0 = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K], f16, align 16, noalias> -> !region.val<[m: M, k: K], f16>
  %1 = region.cast %0 : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], f32>
  %2 = region.broadcast_in_dim %1 dims [0, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %3 = region.read %B affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[K, N], f16, align 16> -> !region.val<[k: K, n: N], f16>
  %4 = region.cast %3 : !region.val<[k: K, n: N], f16> -> !region.val<[k: K, n: N], f32>
  %5 = region.broadcast_in_dim %4 dims [1, 2] : !region.val<[k: K, n: N], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %6 = region.binary mul %2, %5 : !region.val<[m: M, k: K, n: N], f32>
  %acc = region.reduce sum %6 over [k] init 0.0 acc f32 name "acc" : !region.val<[m: M, k: K, n: N], f32> -> !region.val<[m: M, n: N], f32>
  %7 = region.read %bias affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], f16, align 2> -> !region.val<[n: N], f16>
  %8 = region.cast %7 : !region.val<[n: N], f16> -> !region.val<[n: N], f32>
  %9 = region.broadcast_in_dim %8 dims [1] : !region.val<[n: N], f32> -> !region.val<[m: M, n: N], f32>
  %10 = region.binary add %acc, %9 : !region.val<[m: M, n: N], f32>
  %zero = region.constant 0.0 : !region.val<[], f32>
  %11 = region.broadcast_in_dim %zero dims [] : !region.val<[], f32> -> !region.val<[m: M, n: N], f32>
  %12 = region.binary max %10, %11 : !region.val<[m: M, n: N], f32>
  %13 = region.cast %12 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
  region.yield %13 : !region.val<[m: M, n: N], f16>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    region.kernel @gemm_bias_relu iters [m: M, n: N]
// CHECK-NEXT:        ins(%A: !region.memref<[M, K], f16, align 16, noalias>, %B: !region.memref<[K, N], f16, align 16>, %bias: !region.memref<[N], f16, align 2> {role = "param", storage = "const_pool"})
// CHECK-NEXT:        outs(C: !region.memref<[M, N], f16, align 16> gmem)
// CHECK-NEXT:        assuming (K mod 8 == 0, M >= 1) {
// CHECK-NEXT:      %0 = region.read %A affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K], f16, align 16, noalias> -> !region.val<[m: M, k: K], f16>
// CHECK-NEXT:      %1 = region.cast %0 : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], f32>
// CHECK-NEXT:      %2 = region.broadcast_in_dim %1 dims [0, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
// CHECK-NEXT:      %3 = region.read %B
// CHECK-NEXT:      %4 = region.cast %3
// CHECK-NEXT:      %5 = region.broadcast_in_dim %4 dims [1, 2] :
// CHECK-NEXT:      %6 = region.binary mul %2, %5 : !region.val<[m: M, k: K, n: N], f32>
// CHECK-NEXT:      %acc = region.reduce sum %6 over [k] init 0.0 acc f32 name "acc" : !region.val<[m: M, k: K, n: N], f32> -> !region.val<[m: M, n: N], f32>
// CHECK:           %zero = region.constant 0.0 : !region.val<[], f32>
// CHECK-NEXT:      %11 = region.broadcast_in_dim %zero dims [] : !region.val<[], f32> -> !region.val<[m: M, n: N], f32>
// CHECK:           region.yield %13 : !region.val<[m: M, n: N], f16>

// The remaining ops, a deferred output, an extra symbol, infinities and a guarded read.
region.kernel @others iters [i0: N, m: M]
    ins(%x: !region.memref<[M, N], f32, align 4> {from = @gemm_bias_relu::@C})
    outs(y: !region.memref<[N, M], bf16, align 4> deferred {role = "data"}, top: !region.memref<[M], f32, align 4> gmem)
    symbols [M, N, P]
    attributes {note = "kept"} {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, i0: N], f32>
  %1 = region.transpose %0 perm [1, 0] : !region.val<[m: M, i0: N], f32> -> !region.val<[i0: N, m: M], f32>
  %2 = region.unary exp %1 : !region.val<[i0: N, m: M], f32>
  %top = region.reduce max %2 over [i0] init -inf name "top" : !region.val<[i0: N, m: M], f32> -> !region.val<[m: M], f32>
  %low = region.reduce min %2 over [i0] init inf : !region.val<[i0: N, m: M], f32> -> !region.val<[m: M], f32>
  %3 = region.binary sub %top, %low : !region.val<[m: M], f32>
  %4 = region.broadcast_in_dim %3 dims [1] : !region.val<[m: M], f32> -> !region.val<[i0: N, m: M], f32>
  %5 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d1, d0 - 1)> where affine_set<(d0, d1)[s0, s1, s2] : (d0 - 1 >= 0)> else -1.5 : !region.memref<[M, N], f32, align 4> -> !region.val<[i0: N, m: M], f32>
  %6 = region.binary add %4, %5 : !region.val<[i0: N, m: M], f32>
  %7 = region.cast %6 : !region.val<[i0: N, m: M], f32> -> !region.val<[i0: N, m: M], bf16>
  region.yield %7, %top : !region.val<[i0: N, m: M], bf16>, !region.val<[m: M], f32>
}

// CHECK:         region.kernel @others iters [i0: N, m: M]
// CHECK-NEXT:        ins(%x: !region.memref<[M, N], f32, align 4> {from = @gemm_bias_relu::@C})
// CHECK-NEXT:        outs(y: !region.memref<[N, M], bf16, align 4> deferred {role = "data"}, top: !region.memref<[M], f32, align 4> gmem)
// CHECK-NEXT:        symbols [M, N, P]
// CHECK-NEXT:        attributes {note = "kept"} {
// CHECK-NEXT:      %0 = region.read %x
// CHECK-NEXT:      %1 = region.transpose %0 perm [1, 0] : !region.val<[m: M, i0: N], f32> -> !region.val<[i0: N, m: M], f32>
// CHECK-NEXT:      %2 = region.unary exp %1 : !region.val<[i0: N, m: M], f32>
// CHECK-NEXT:      %top = region.reduce max %2 over [i0] init -inf name "top" : !region.val<[i0: N, m: M], f32> -> !region.val<[m: M], f32>
// CHECK-NEXT:      %low = region.reduce min %2 over [i0] init inf : !region.val<[i0: N, m: M], f32> -> !region.val<[m: M], f32>
// CHECK:           %5 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> (d1, (d0 + -1))> where affine_set<(d0, d1)[s0, s1, s2] : ((d0 + -1) >= 0)> else -1.5 : !region.memref<[M, N], f32, align 4> -> !region.val<[i0: N, m: M], f32>
// CHECK:           region.yield %7, %top : !region.val<[i0: N, m: M], bf16>, !region.val<[m: M], f32>

// Values of each type, and the numbers that decimal text finds hard.
region.kernel @numbers iters []
    ins(%x: !region.memref<[], f32, align 4>)
    outs(y: !region.memref<[], f32, align 4> gmem) {
  %0 = region.constant 0.1 : !region.val<[], f16>
  %1 = region.constant 1.0e-30 : !region.val<[], f32>
  %2 = region.constant nan : !region.val<[], bf16>
  %3 = region.constant -0.0 : !region.val<[], f32>
  %4 = region.constant 16777216.0 : !region.val<[], f32>
  %5 = region.read %x affine_map<() -> ()> : !region.memref<[], f32, align 4> -> !region.val<[], f32>
  region.yield %5 : !region.val<[], f32>
}

// CHECK:         region.kernel @numbers iters []
// CHECK:           region.constant 0.1 : !region.val<[], f16>
// CHECK-NEXT:      region.constant 1.0e-30 : !region.val<[], f32>
// CHECK-NEXT:      region.constant nan : !region.val<[], bf16>
// CHECK-NEXT:      region.constant -0.0 : !region.val<[], f32>
// CHECK-NEXT:      region.constant 16777216.0 : !region.val<[], f32>
