// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A library that takes static TLS, as OpenMP runtimes and some allocators do.
__thread char g_block[128] __attribute__((tls_model("initial-exec")));

char* contract_tls_block(void) { return g_block; }
