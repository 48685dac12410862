import numpy
import requests
import safetensors.numpy

x = numpy.random.default_rng(1).standard_normal((4, 64), numpy.float32)
kind = "application/x-safetensors"
answer = requests.post("http://127.0.0.1:8080/v1/forward", data=safetensors.numpy.save({"input": x}),
                       headers={"Content-Type": kind, "Accept": kind}, timeout=60)
answer.raise_for_status()
maps = safetensors.numpy.load(answer.content)["attention"]
print("head 0:", maps[0])
