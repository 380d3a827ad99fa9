# SPDX-License-Identifier: Apache-2.0
gpuprobe_python_test(import_kineto_traces_test kineto_traces_test.py LABELS unit)
