// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Stands for a library of which only the file name matters (libcuda, libcudart).
int gpuprobe_fake_library_of_no_function(void) { return 0; }
