// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Another entry of LD_PRELOAD that does nothing.
int contract_other_library(void) { return 0; }
