// RUN: polyc-opt %s -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,plan-select{arch=sm_90a}' | filecheck %s
// RUN: polyc-opt %s -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,plan-select{arch=sm_80}' | filecheck %s --check-prefix=OLD

// Windows of f32 whose precision permits TF32 are multiplied by wgmma, in steps of as many bytes as
// of f16; threads multiply them where channels are no multiples of 4, and on sm_80.

// CHECK: plan.schedule @windows variant "tf32{{.*}}C mod 4 == 0, F mod 4 == 0, C >= 1) {
// CHECK:   mma = "wgmma",
// CHECK-NEXT: loader = "tma",
// CHECK-NEXT: tile = [{{[0-9]+}}, {{[0-9]+}}, 32],
// CHECK:   vectorize = 4,
// CHECK:   algo_choice = {"conv" = "tf32"},
// CHECK: plan.schedule @windows variant "fma
// CHECK:   mma = "fma",

// OLD-NOT: "tf32
// OLD: mma = "fma",
// OLD-NOT: "tf32
frontend.graph @windows(%x: !frontend.tensor<[N, H, W, C], f32>, %w: !frontend.tensor<[F, 3, 3, C], f32>) -> (y: !frontend.tensor<[N, H, W, F], f32>) {
  %0 = frontend.conv2d nhwc %x, %w stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32, precision = "tf32"} : (!frontend.tensor<[N, H, W, C], f32>, !frontend.tensor<[F, 3, 3, C], f32>) -> !frontend.tensor<[N, H, W, F], f32>
  frontend.output %0 : !frontend.tensor<[N, H, W, F], f32>
}
