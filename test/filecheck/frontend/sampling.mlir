// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// What lies at coordinates that are data, along one to three axes; a grid may have another type.

// CHECK: frontend.grid_sample linear %x, %g zeros : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[N, P, Q, 2], f32>) -> !frontend.tensor<[N, C, P, Q], f16>
frontend.graph @images(%x: !frontend.tensor<[N, C, H, W], f16>, %g: !frontend.tensor<[N, P, Q, 2], f32>) -> !frontend.tensor<[N, C, P, Q], f16> {
  %0 = frontend.grid_sample linear %x, %g zeros : (!frontend.tensor<[N, C, H, W], f16>, !frontend.tensor<[N, P, Q, 2], f32>) -> !frontend.tensor<[N, C, P, Q], f16>
  frontend.output %0 : !frontend.tensor<[N, C, P, Q], f16>
}

// CHECK: frontend.grid_sample cubic %x, %g border align_corners {note = "kept"} : (!frontend.tensor<[1, C, W], f32>, !frontend.tensor<[1, P, 1], f32>) -> !frontend.tensor<[1, C, P], f32>
frontend.graph @rows(%x: !frontend.tensor<[1, C, W], f32>, %g: !frontend.tensor<[1, P, 1], f32>) -> !frontend.tensor<[1, C, P], f32> {
  %0 = frontend.grid_sample cubic %x, %g border align_corners {note = "kept"} : (!frontend.tensor<[1, C, W], f32>, !frontend.tensor<[1, P, 1], f32>) -> !frontend.tensor<[1, C, P], f32>
  frontend.output %0 : !frontend.tensor<[1, C, P], f32>
}

// CHECK: frontend.grid_sample nearest %x, %g reflection : (!frontend.tensor<[N, C, D, H, W], bf16>, !frontend.tensor<[N, 2, 3, Q, 3], bf16>) -> !frontend.tensor<[N, C, 2, 3, Q], bf16>
frontend.graph @volumes(%x: !frontend.tensor<[N, C, D, H, W], bf16>, %g: !frontend.tensor<[N, 2, 3, Q, 3], bf16>) -> !frontend.tensor<[N, C, 2, 3, Q], bf16> {
  %0 = frontend.grid_sample nearest %x, %g reflection : (!frontend.tensor<[N, C, D, H, W], bf16>, !frontend.tensor<[N, 2, 3, Q, 3], bf16>) -> !frontend.tensor<[N, C, 2, 3, Q], bf16>
  frontend.output %0 : !frontend.tensor<[N, C, 2, 3, Q], bf16>
}
