// One query a sequence over a cache in pages of 16 tokens, which a table of the sequence's own picks.
frontend.graph @paged_attention(
    %q: !frontend.tensor<[B, 8, 1, 64], f16>,
    %keys: !frontend.tensor<[P, 16, 2, 64], f16>,
    %values: !frontend.tensor<[P, 16, 2, 64], f16>,
    %table: !frontend.tensor<[B, J], i32>,
    %length: !frontend.tensor<[B, 1, 1, 1], i32>)
    -> (y: !frontend.tensor<[B, 8, 1, 64], f16>) {
  %0 = frontend.gather %keys, %table axis 0 clamp : (!frontend.tensor<[P, 16, 2, 64], f16>, !frontend.tensor<[B, J], i32>) -> !frontend.tensor<[B, J, 16, 2, 64], f16>
  %1 = frontend.reshape %0 : !frontend.tensor<[B, J, 16, 2, 64], f16> -> !frontend.tensor<[B, J * 16, 2, 64], f16>
  %k = frontend.permute %1 perm [0, 2, 1, 3] : !frontend.tensor<[B, J * 16, 2, 64], f16> -> !frontend.tensor<[B, 2, J * 16, 64], f16>
  %2 = frontend.gather %values, %table axis 0 clamp : (!frontend.tensor<[P, 16, 2, 64], f16>, !frontend.tensor<[B, J], i32>) -> !frontend.tensor<[B, J, 16, 2, 64], f16>
  %3 = frontend.reshape %2 : !frontend.tensor<[B, J, 16, 2, 64], f16> -> !frontend.tensor<[B, J * 16, 2, 64], f16>
  %v = frontend.permute %3 perm [0, 2, 1, 3] : !frontend.tensor<[B, J * 16, 2, 64], f16> -> !frontend.tensor<[B, 2, J * 16, 64], f16>
  %n = frontend.iota axis 0 : !frontend.tensor<[J * 16], i32>
  %seen = frontend.compare lt %n, %length : (!frontend.tensor<[J * 16], i32>, !frontend.tensor<[B, 1, 1, 1], i32>) -> !frontend.tensor<[B, 1, 1, J * 16], i1>
  %y = frontend.attention %q, %k, %v mask %seen {acc = f32} : (!frontend.tensor<[B, 8, 1, 64], f16>, !frontend.tensor<[B, 2, J * 16, 64], f16>, !frontend.tensor<[B, 2, J * 16, 64], f16>, !frontend.tensor<[B, 1, 1, J * 16], i1>) -> !frontend.tensor<[B, 8, 1, 64], f16>
  frontend.output %y : !frontend.tensor<[B, 8, 1, 64], f16>
}
