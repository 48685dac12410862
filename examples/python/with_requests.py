import base64

import numpy
import requests

x = numpy.random.default_rng(1).standard_normal((4, 64), numpy.float32)
tensor = {"shape": x.shape, "dtype": "f32", "base64": base64.b64encode(x.tobytes()).decode()}
answer = requests.post("http://127.0.0.1:8080/v1/forward", json={"input": tensor, "encoding": "base64"}, timeout=60)
answer.raise_for_status()
attention = answer.json()["attention"]
maps = numpy.frombuffer(base64.b64decode(attention["base64"]), "<f4").reshape(attention["shape"])
print("head 0:", maps[0])
