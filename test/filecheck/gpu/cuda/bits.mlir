// RUN: polyc-opt %s -t cuda | filecheck %s

// The same 32-bit words under another type.
gpu.module @bits arch "sm_80" symbols [M] {
  gpu.kernel @every(%H: !gpu.global<[M], f16, align 16> = tensor 0, %O: !gpu.global<[M], i32, align 8> = tensor 1) threads 32 {
    %c0 = arith.constant 0 : index
    %x = gpu.load_global %H[%c0 : index] : !gpu.global<[M], f16, align 16> -> vector<4xf16>
    %words = vector.bitcast %x : vector<4xf16> to vector<2xi32>
    %a = gpu.unpack %words element 0 : vector<2xi32> -> i32
    %b = gpu.unpack %words element 1 : vector<2xi32> -> i32
    %turned = gpu.pack %b, %a : i32, i32 -> vector<2xi32>
    gpu.store_global %words, %O[%c0 : index] : vector<2xi32>, !gpu.global<[M], i32, align 8>
    %y = vector.bitcast %turned : vector<2xi32> to vector<4xf16>
    gpu.store_global %y, %H[%c0 : index] : vector<4xf16>, !gpu.global<[M], f16, align 16>
    gpu.return
  }
}

// CHECK: f16x4 x = load_global_f16x4(H);
// CHECK-NEXT: u32x2 words = u32x2{{[{][{]}}x.v[0], x.v[1]}};
// CHECK: store_global_u32x2(O, words);
// CHECK-NEXT: f16x4 y = f16x4{{[{][{]}}turned.v[0], turned.v[1]}};
// CHECK-NEXT: store_global_f16x4(H, y);
