// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// A schedule without tensor cores: threads compute alone, and there is no ring.

// CHECK: plan.schedule @rows variant "any" {
// CHECK:   tensorize = "",
// CHECK:   mma = "none",
// CHECK:   stages = 1,
// CHECK:   algo_choice = {"rows" = "resident"}
plan.schedule @rows variant "any" {
  arch = "sm_80", tensorize = "", mma = "none", loader = "register", tile = [4, 1024, 1], stages = 1,
  warp_tile = [1, 1024], vectorize = 8, algo_choice = {"rows" = "resident"}
}
