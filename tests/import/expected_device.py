# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""What the reference figures of a real trace say of one device."""


def check(test, device, expected, min_gap):
    """One device of a summary against its reference figures (expected.json), exactly."""
    test.assertEqual(device["window_ns"], {"start": expected["first_start_ns"], "end": expected["last_end_ns"],
                                           "span": expected["span_ns"]})
    test.assertEqual(device["kernels"], {
        "count": expected["kernel_count"], "zero_length": expected["kernel_zero_length"],
        "sum_ns": expected["kernel_sum_ns"], "union_ns": expected["kernel_union_ns"]})
    test.assertEqual(device["copies"]["count"], expected["copy_count"])
    test.assertEqual(device["sets"]["count"], expected["set_count"])
    test.assertEqual(device["graphs"]["count"], 0)
    test.assertEqual(device["untimed"]["count"], 0)
    test.assertEqual(device["busy_ns"], expected["busy_union_ns"])
    test.assertEqual(device["idle_ns"], expected["idle_ns"])
    test.assertEqual(sum(device["breakdown"].values()), expected["span_ns"])
    test.assertEqual(sum(c["total_ns"] for c in device["idle_causes"]), expected["idle_ns"])
    gaps = expected["gaps"][min_gap]
    test.assertEqual((device["gaps"]["count"], device["gaps"]["total_ns"]), (gaps["count"], gaps["total_ns"]))
