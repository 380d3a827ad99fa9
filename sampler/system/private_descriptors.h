// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A descriptor table of the calling thread's own, empty: what it opens takes no number of the host,
// is seen by nobody who lists or closes the host's descriptors, and no pipe, socket or file of the
// host is kept open by it. POSIX record locks belong to a table, so closing in this one cannot drop
// those of the host.
#ifndef GPUPROBE_SAMPLER_SYSTEM_PRIVATE_DESCRIPTORS_H_
#define GPUPROBE_SAMPLER_SYSTEM_PRIVATE_DESCRIPTORS_H_

namespace gpuprobe::sampler {

// False: the system forbids it (seccomp), and the table is still the host's.
bool TakePrivateDescriptors();

}  // namespace gpuprobe::sampler

#endif  // GPUPROBE_SAMPLER_SYSTEM_PRIVATE_DESCRIPTORS_H_
