// RUN: polyc-opt %s -t cuda | filecheck %s

// Integers that a program computes with: of 64 bits they wrap where the op says so, which C leaves
// open for signed ones, and two shorts are multiplied without a sign.  A number is cut to 32 or 64
// bits, as the hardware does.
gpu.module @integers arch "sm_80" symbols [M] {
  gpu.kernel @every(%A: !gpu.global<[M], i64> = tensor 0, %S: !gpu.global<[M], i16> = tensor 1, %F: !gpu.global<[M], f32> = tensor 2) threads 32 {
    %c0 = arith.constant 0 : index
    %a = gpu.load_global %A[%c0 : index] : !gpu.global<[M], i64> -> i64
    %s = gpu.load_global %S[%c0 : index] : !gpu.global<[M], i16> -> i16
    %f = gpu.load_global %F[%c0 : index] : !gpu.global<[M], f32> -> f32
    %place = arith.addi %a, %a : i64
    %sum = arith.addi %place, %a {gpu.wraps} : i64
    %product = arith.muli %s, %s : i16
    %signed = arith.fptosi %f : f32 to i16
    %unsigned = arith.fptoui %f : f32 to i64
    %more = arith.addi %product, %signed : i16
    %whole = arith.subi %sum, %unsigned {gpu.wraps} : i64
    gpu.store_global %whole, %A[%c0 : index] : i64, !gpu.global<[M], i64>
    gpu.store_global %more, %S[%c0 : index] : i16, !gpu.global<[M], i16>
    gpu.return
  }
}

// CHECK: i64 place = a + a;
// CHECK-NEXT: i64 sum = (u64)place + (u64)a;
// CHECK-NEXT: u16 product = (u16)((u32)s * (u32)s);
// CHECK-NEXT: u16 signed_ = (u16)(int)f;
// CHECK-NEXT: i64 unsigned_ = (i64)(u64)f;
// CHECK-NEXT: u16 more = (u16)(product + signed_);
// CHECK-NEXT: i64 whole = (u64)sum - (u64)unsigned_;
