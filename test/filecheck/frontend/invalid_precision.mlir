// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s
// What is no precision, or said of what is no product of f32.

// CHECK: error[InvalidIR]: gemm has a precision of "tf32", which is said of products of f32, and its operands hold f16; leave it out, or cast them to f32
frontend.graph @f(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %0 = frontend.gemm %A, %B {acc = f32, precision = "tf32"} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  frontend.output %0 : !frontend.tensor<[M, N], f16>
}

// -----

// CHECK: error[InvalidIR]: tf16 is no precision; there are f32, tf32, f32x3
frontend.graph @f(%A: !frontend.tensor<[M, K], f32>, %B: !frontend.tensor<[K, N], f32>) -> !frontend.tensor<[M, N], f32> {
  %0 = frontend.gemm %A, %B {acc = f32, precision = "tf16"} : (!frontend.tensor<[M, K], f32>, !frontend.tensor<[K, N], f32>) -> !frontend.tensor<[M, N], f32>
  frontend.output %0 : !frontend.tensor<[M, N], f32>
}

// -----

// CHECK: error[InvalidIR]: a precision is said of a sum of products, not of a max
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M], f32> {
  %0 = tiny.reduce max %x axes [1] precision tf32 : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M], f32>
  tiny.output %0 : !tiny.tensor<[M], f32>
}

// -----

// CHECK: error[ParseError]: f32 is no precision; there are tf32, f32x3
tiny.graph @f(%x: !tiny.tensor<[M, K], f32>) -> !tiny.tensor<[M], f32> {
  %0 = tiny.reduce sum %x axes [1] precision f32 : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M], f32>
  tiny.output %0 : !tiny.tensor<[M], f32>
}

// -----

// CHECK: error[InvalidIR]: a precision is said of a sum of products, not of a min
region.kernel @f iters [m: M, k: K]
    ins(%x: !region.memref<[M, K], f32, align 4>)
    outs(y: !region.memref<[M], f32, align 4> gmem) {
  %y = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %s = region.reduce min %y over [k] init inf precision f32x3 : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %s : !region.val<[m: M], f32>
}

// -----

// CHECK: error[InvalidIR]: attention has a precision of "tf32", which is said of products of f32, and its operands hold f16; leave it out, or cast them to f32
frontend.graph @f(%q: !frontend.tensor<[H, M, 64], f16>) -> !frontend.tensor<[H, M, 64], f16> {
  %0 = frontend.attention %q, %q, %q {acc = f32, precision = "tf32"} : (!frontend.tensor<[H, M, 64], f16>, !frontend.tensor<[H, M, 64], f16>, !frontend.tensor<[H, M, 64], f16>) -> !frontend.tensor<[H, M, 64], f16>
  frontend.output %0 : !frontend.tensor<[H, M, 64], f16>
}
