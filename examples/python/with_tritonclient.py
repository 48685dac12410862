import numpy
import tritonclient.http

x = numpy.random.default_rng(1).standard_normal((1, 4, 64), numpy.float32)
tensor = tritonclient.http.InferInput("input", x.shape, "FP32")
tensor.set_data_from_numpy(x)
client = tritonclient.http.InferenceServerClient("127.0.0.1:8080")
maps = client.infer("demo", [tensor]).as_numpy("attention")[0]
print("head 0:", maps[0])
