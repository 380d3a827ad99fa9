// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// CUPTI's entry points as we export them, to notice other clients (torch.profiler) before CUPTI
// does. Under LD_PRELOAD they stand in front of libcupti's in the global scope; each call is passed
// on, unchanged, to the libcupti that the caller would have reached without us. We ourselves never
// go through them.
//
// Measured on an H200 with torch 2.11: a second client replaces our buffer callbacks, but records
// go on into the buffers that we had handed out; torch.profiler then reports no CUDA event at all,
// without an error. So before the first call that changes anything (also the timestamp callback:
// records flushed after it was registered again come back with end = 0) we flush, disable our kinds
// and record a blind period; when the other client has switched off its kinds and flushed, we come
// back. With that, its counts are those of a run without us, and all kernels outside its windows
// are in our trace.
#ifndef GPUPROBE_INJECT_CLIENTS_FOREIGN_CLIENT_H_
#define GPUPROBE_INJECT_CLIENTS_FOREIGN_CLIENT_H_

#include <cstdint>

namespace gpuprobe::inject {

// Where the caller at `return_address` would have found `name`, had it not found us: in its own
// libraries, then in the global scope behind us, then in a libcupti that is loaded. nullptr:
// nowhere.
void* NextCuptiFunction(const char* name, const void* return_address);

// Where we were not preloaded, nothing resolves to our exports: puts them into the import tables of
// what has been loaded since the last call (import_patch.h). Called when the session starts and
// once a flush period. Returns the slots changed.
int InterceptLoadedClients();

}  // namespace gpuprobe::inject

#endif  // GPUPROBE_INJECT_CLIENTS_FOREIGN_CLIENT_H_
