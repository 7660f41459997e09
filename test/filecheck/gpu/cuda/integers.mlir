// RUN: polyc-opt %s -t cuda | filecheck %s

// index is int, i32 and smaller are unsigned and seen as signed where the op says so.
gpu.module @integers arch "sm_80" symbols [M] {
  gpu.kernel @every(%O: !gpu.global<[M], i32> = tensor 0, %i: index = symbol M, %j: index = symbol M, %a: i32 = symbol M, %b: i32 = symbol M, %l: i64 = symbol M, %h: i16 = symbol M, %p: i1 = symbol M, %q: i1 = symbol M) threads 32 {
    %keep = memref.alloca() : memref<32xi32, #gpu<space register>>
    %c0 = arith.constant 0 : index
    %c5 = arith.constant -5 : i32
    %min = arith.constant -2147483648 : index
    %long = arith.constant -1 : i64
    %i0 = arith.addi %i, %j : index
    %i1 = arith.subi %i0, %min : index
    %i2 = arith.muli %i1, %j : index
    %i3 = arith.divsi %i2, %j : index
    %i4 = arith.divui %i3, %j : index
    %i5 = arith.remsi %i4, %j : index
    %i6 = arith.remui %i5, %j : index
    %i7 = arith.floordivsi %i6, %j : index
    %i8 = arith.ceildivsi %i7, %j : index
    %i9 = arith.minsi %i8, %j : index
    %i10 = arith.maxui %i9, %j : index
    %u0 = arith.index_cast %i10 : index to i32
    %u1 = arith.addi %u0, %c5 : i32
    %u2 = arith.divsi %u1, %b : i32
    %u3 = arith.andi %u2, %b : i32
    %u4 = arith.ori %u3, %b : i32
    %u5 = arith.xori %u4, %b : i32
    %u6 = arith.shli %u5, %b : i32
    %u7 = arith.shrui %u6, %b : i32
    %u8 = arith.shrsi %u7, %b : i32
    %u9 = arith.maxsi %u8, %b : i32
    %u10 = arith.minui %u9, %b : i32
    %h1 = arith.addi %h, %h : i16
    %h2 = arith.extsi %h1 : i16 to i32
    %h3 = arith.extui %h1 : i16 to i32
    %h4 = arith.addi %h2, %h3 : i32
    %l1 = arith.addi %l, %long : i64
    %l2 = arith.shrui %l1, %l : i64
    %l3 = arith.trunci %l2 : i64 to i32
    %b0 = arith.addi %p, %q : i1
    %b1 = arith.cmpi ult, %u10, %l3 : i32
    %b2 = arith.cmpi sge, %u10, %l3 : i32
    %b3 = arith.cmpi ne, %i, %j : index
    %b4 = arith.cmpi ugt, %i, %j : index
    %b5 = arith.andi %b0, %b1 : i1
    %b6 = arith.ori %b2, %b3 : i1
    %b7 = arith.xori %b5, %b6 : i1
    %b8 = arith.ori %b7, %b4 : i1
    %s = arith.select %b8, %h4, %u10 : i32
    %e = arith.extui %b8 : i1 to i32
    %r = arith.addi %s, %e : i32
    gpu.store_global %r, %O[%c0 : index] : i32, !gpu.global<[M], i32>
    gpu.return
  }
}

// CHECK: extern "C" __global__ void __launch_bounds__(32, 1)
// CHECK-NEXT: every(u32* __restrict__ O, int i, int j, u32 a, u32 b, i64 l, u16 h, bool p, bool q) {
// CHECK-NEXT:   int i0 = i + j;
// CHECK-NEXT:   int i1 = i0 - (-2147483647 - 1);
// CHECK-NEXT:   int i2 = i1 * j;
// CHECK-NEXT:   int i3 = i2 / j;
// CHECK-NEXT:   int i4 = (u32)i3 / (u32)j;
// CHECK-NEXT:   int i5 = i4 % j;
// CHECK-NEXT:   int i6 = (u32)i5 % (u32)j;
// CHECK-NEXT:   int i7 = floor_div(i6, j);
// CHECK-NEXT:   int i8 = ceil_div(i7, j);
// CHECK-NEXT:   int i9 = i8 < j ? i8 : j;
// CHECK-NEXT:   int i10 = (u32)i9 > (u32)j ? i9 : j;
// CHECK-NEXT:   u32 u0 = (u32)i10;
// CHECK-NEXT:   u32 u1 = u0 + (u32)-5;
// CHECK-NEXT:   u32 u2 = (int)u1 / (int)b;
// CHECK-NEXT:   u32 u3 = u2 & b;
// CHECK-NEXT:   u32 u4 = u3 | b;
// CHECK-NEXT:   u32 u5 = u4 ^ b;
// CHECK-NEXT:   u32 u6 = u5 << b;
// CHECK-NEXT:   u32 u7 = u6 >> b;
// CHECK-NEXT:   u32 u8_ = (int)u7 >> b;
// CHECK-NEXT:   u32 u9 = (int)u8_ > (int)b ? u8_ : b;
// CHECK-NEXT:   u32 u10 = u9 < b ? u9 : b;
// CHECK-NEXT:   u16 h1 = (u16)(h + h);
// CHECK-NEXT:   u32 h2 = (u32)(short)h1;
// CHECK-NEXT:   u32 h3 = (u32)h1;
// CHECK-NEXT:   u32 h4 = h2 + h3;
// CHECK-NEXT:   i64 l1 = l + -1ll;
// CHECK-NEXT:   i64 l2 = (u64)l1 >> l;
// CHECK-NEXT:   u32 l3 = (u32)l2;
// CHECK-NEXT:   bool b0 = p ^ q;
// CHECK-NEXT:   bool b1 = u10 < l3;
// CHECK-NEXT:   bool b2 = (int)u10 >= (int)l3;
// CHECK-NEXT:   bool b3 = i != j;
// CHECK-NEXT:   bool b4 = (u32)i > (u32)j;
// CHECK-NEXT:   bool b5 = b0 & b1;
// CHECK-NEXT:   bool b6 = b2 | b3;
// CHECK-NEXT:   bool b7 = b5 ^ b6;
// CHECK-NEXT:   bool b8 = b7 | b4;
// CHECK-NEXT:   u32 s = b8 ? h4 : u10;
// CHECK-NEXT:   u32 e = (u32)b8;
// CHECK-NEXT:   u32 r = s + e;
// CHECK-NEXT:   store_global_u32(O, r);
// CHECK-NEXT: }
