// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Another client of CUPTI in the same process that calls it as Kineto (torch.profiler) does, in the
// order seen on real hardware. A library of its own, linked with libcupti.
#ifndef GPUPROBE_TESTS_CONTRACT_HOSTS_CLIENT_H_
#define GPUPROBE_TESTS_CONTRACT_HOSTS_CLIENT_H_

#include <cstdint>

namespace gpuprobe::contract {

struct ClientCounts {
  int64_t kernels, runtime, driver, others;
  int64_t unfinished;       // kernels without an end
  int64_t unknown_buffers;  // completed buffers that this client never handed out
  int64_t failures;         // CUPTI calls that did not succeed
};

// One profiler window. The thread must have a current context; work that is still running when the
// window ends belongs to it.
extern "C" void ContractClientBegin();
extern "C" ClientCounts ContractClientEnd();
// Detaches CUPTI from the process, as TEARDOWN_CUPTI=1 has torch.profiler do.
extern "C" void ContractClientFinalize();

}  // namespace gpuprobe::contract

#endif  // GPUPROBE_TESTS_CONTRACT_HOSTS_CLIENT_H_
