// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// For tools that are linked without any shared library (-Wl,--wrap=dlopen). SQLite can load
// extensions; nothing here lets it, but libc's dlopen would come along, and the linker warns that
// it needs libc's shared half at run time. It fails instead.
extern "C" void* __wrap_dlopen(const char*, int) noexcept { return nullptr; }
