# SPDX-License-Identifier: Apache-2.0
# The host sampler, in processes whose threads do what is known.
if(NOT TARGET gpuprobe_sampler OR NOT TARGET gpuprobe_proto_read)
  return()
endif()
find_package(Threads REQUIRED)
gpuprobe_test(sampler_host_parts_test SOURCES host_parts_test.cc
              LIBS gpuprobe_sampler gpuprobe_proto_write Threads::Threads LABELS tsan)
gpuprobe_test(sampler_look_rate_test SOURCES look_rate_test.cc LIBS gpuprobe_sampler)
gpuprobe_test(sampler_own_threads_test SOURCES watched/own_threads_test.cc
              LIBS gpuprobe_sampler gpuprobe_proto_read gpuprobe_proto_write Threads::Threads)
gpuprobe_test(sampler_host_threads_test SOURCES host_threads_test.cc
              LIBS gpuprobe_sampler gpuprobe_proto_read gpuprobe_proto_write Threads::Threads LABELS tsan)
gpuprobe_test(sampler_host_waits_test SOURCES host_waits_test.cc
              LIBS gpuprobe_sampler gpuprobe_proto_read gpuprobe_proto_write Threads::Threads LABELS tsan)
gpuprobe_test(sampler_host_native_test SOURCES host_native_test.cc
              LIBS gpuprobe_sampler gpuprobe_proto_read gpuprobe_proto_write Threads::Threads LABELS tsan)
gpuprobe_test(sampler_host_children_test SOURCES host_children_test.cc
              LIBS gpuprobe_sampler gpuprobe_proto_read gpuprobe_proto_write Threads::Threads)
