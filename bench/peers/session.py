"""ONNX Runtime at its best: all graph optimisations, threads that spin between operators, and, where there is one for each CPU, pinned, as
attnd's are; inputs and outputs bound to memory that was allocated before."""
import os

import numpy as np
import onnxruntime


def make_session(model, threads):
    """Of a model's bytes or path."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
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
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def repeater(session, inputs, outputs):
    """A function that runs a number of passes; both are names and arrays."""
    binding = session.io_binding()
    for bind, tensors in ((binding.bind_input, inputs), (binding.bind_output, outputs)):
        for name, tensor in tensors.items():
            bind(name, "cpu", 0, np.dtype(tensor.dtype).type, tensor.shape, tensor.ctypes.data)
    # What session.run_with_iobinding calls: without the Python in between, which counts where a pass takes microseconds.
    run, bound = session._sess.run_with_iobinding, binding._iobinding

    def repeat(count):
        for _ in range(count):
            run(bound, None)

    return repeat
