// RUN: polyc-opt %s -t cuda | filecheck %s

gpu.module @posts arch "sm_80" symbols [M] {
  gpu.kernel @k(%w: !gpu.global<[M], i64> = workspace "words", %M: index = symbol M) threads 64 {
    %at = arith.constant 3 : i64
    %next = arith.constant 4 : i64
    %zero = arith.constant 0 : index
    %x = arith.constant 1.0 : f32
    %one = arith.constant 1 : index
    %first = arith.cmpi slt, %one, %M : index
    %r = memref.alloca() : memref<2xf32, #gpu<space register>>
    gpu.post_global %x, %w[%at : i64] if %first : f32, !gpu.global<[M], i64>
    gpu.await_posts_global %w[%at, %next : i64, i64] if %first, %first to %r[%zero] : !gpu.global<[M], i64>, memref<2xf32, #gpu<space register>>
    %n = arith.constant -5 : i32
    %q = memref.alloca() : memref<1xi32, #gpu<space register>>
    gpu.post_global %n, %w[%at : i64] : i32, !gpu.global<[M], i64>
    gpu.await_posts_global %w[%at : i64] if %first to %q[%zero] : !gpu.global<[M], i64>, memref<1xi32, #gpu<space register>>
    gpu.return
  }
}
// CHECK: void post_float(i64* pointer, float value)
// CHECK-NEXT: u64 word = 0x100000000ull | __float_as_uint(value);
// CHECK: "st.relaxed.gpu.global.b64 [%0], %1;"
// Both words are on their way before the first is waited for.
// CHECK: void await_posts_float_2(float* r, const i64* p0, bool valid0, const i64* p1, bool valid1)
// CHECK: "@p ld.relaxed.gpu.global.b64 %0, [%1];\n"
// CHECK: u64 w1;
// CHECK: "@p ld.relaxed.gpu.global.b64 %0, [%1];\n"
// CHECK: while (!(w0 >> 32)) {
// CHECK: r[0] = __uint_as_float((u32)w0);
// CHECK: while (!(w1 >> 32)) {
// An integer is posted and taken as it is: as an f32, one below 0 or beyond 2^24 would be another.
// CHECK: void post_u32(i64* pointer, u32 value)
// CHECK-NEXT: u64 word = 0x100000000ull | value;
// CHECK: void await_posts_u32_1(u32* r, const i64* p0, bool valid0)
// CHECK: r[0] = (u32)w0;
// CHECK: if (first) post_float(w + 3
// CHECK-NEXT: await_posts_float_2(r, w + 3{{.*}}, first, w + 4{{.*}}, first);
