"""Multi-head attention with ONNX Runtime. usage: onnx_peer.py INPUT THREADS VARIANT

All graph optimisations, weights as constants (which it packs once), inputs and outputs bound to memory that was allocated before,
threads that spin between operators. With a thread for each CPU they are pinned, as attnd's are.
"""
import os
import sys

import numpy as np
import onnxruntime

from graphs import VARIANTS
from protocol import Task, serve


def main():
    task = Task(sys.argv[1])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    threads = int(sys.argv[2])
    options.intra_op_num_threads = threads
    if threads > 1 and threads == len(os.sched_getaffinity(0)):
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpus[0]})
        # Counted from 1; the calling thread is not among those it makes.
        options.add_session_config_entry("session.intra_op_thread_affinities", ";".join(str(cpu + 1) for cpu in cpus[1:]))
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    options.log_severity_level = 3
    model = VARIANTS[sys.argv[3]](task)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    output = np.empty_like(task.x)
    maps = np.empty((task.batch, task.heads, task.length, task.length), np.float32)
    binding = session.io_binding()
    for bind, name, tensor in ((binding.bind_input, "x", task.x), (binding.bind_output, "output", output),
                               (binding.bind_output, "attention", maps)):
        bind(name, "cpu", 0, np.float32, tensor.shape, tensor.ctypes.data)
    # What session.run_with_iobinding calls: without the Python in between, which counts where a pass takes microseconds.
    run, bound = session._sess.run_with_iobinding, binding._iobinding

    def repeat(count):
        for _ in range(count):
            run(bound, None)

    serve(repeat, lambda: (output, maps))


main()
