// RUN: polyc-opt %s -t cuda | filecheck %s

// A condition is a byte, of which all bits count where it is read.
gpu.module @conditions arch "sm_80" symbols [M] {
  gpu.kernel @of_conditions(%A: !gpu.global<[M], i1, align 8> = tensor 0, %C: !gpu.global<[M], i1, align 8> = tensor 1) threads 32 {
    %c0 = arith.constant 0 : index
    %x = gpu.load_global %A[%c0 : index] : !gpu.global<[M], i1, align 8> -> vector<8xi1>
    %first = gpu.unpack %x element 1 : vector<8xi1> -> i1
    %last = gpu.unpack %x element 7 : vector<8xi1> -> i1
    %pair = gpu.pack %last, %first : i1, i1 -> vector<2xi1>
    gpu.store_global %pair, %C[%c0 : index] : vector<2xi1>, !gpu.global<[M], i1, align 8>
    gpu.return
  }
}

// CHECK: struct __align__(2) i1x2 {
// CHECK-NEXT:   u16 v[1];
// CHECK-NEXT: };
// CHECK: struct __align__(8) i1x8 {
// CHECK-NEXT:   u32 v[2];
// CHECK-NEXT: };
// CHECK: asm("ld.global.nc.v2.b32 {%0, %1}, [%2];"
// CHECK: asm volatile("st.global.b16 [%0], %1;"
// CHECK-LABEL: of_conditions(
// CHECK: i1x8 x = load_global_nc_i1x8(A);
// CHECK-NEXT: bool first = ((x.v[0] & 0xff00u) != 0);
// CHECK-NEXT: bool last = ((x.v[1] & 0xff000000u) != 0);
// CHECK-NEXT: i1x2 pair = i1x2{{.*}}(u16)((u16)(last) | (u16)(first) << 8)
// CHECK-NEXT: store_global_i1x2(C, pair);
