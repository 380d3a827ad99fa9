// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Bounded single-producer single-consumer ring of trivially copyable elements with cached indices.
// (to be written: see ringbuf/README in ARCHITECTURE.md)
#ifndef GPUPROBE_RINGBUF_SPSC_RING_H_
#define GPUPROBE_RINGBUF_SPSC_RING_H_
#endif
