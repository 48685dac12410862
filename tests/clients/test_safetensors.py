"""safetensors.numpy: a file's bytes as a request, a file's bytes as the answer."""
import json
import unittest

import numpy
import requests
import safetensors
import safetensors.numpy
from golden import BASE, REAL_MODEL, Case, near, real_sentence

FORWARD = BASE + "/v1/forward"
SAFETENSORS = "application/x-safetensors"


class Safetensors(unittest.TestCase):
    def post(self, tensors, members=None, accept=SAFETENSORS):
        """Members that are no tensors go into the file's metadata, each as JSON text."""
        metadata = {name: json.dumps(value) for name, value in (members or {}).items()}
        return requests.post(FORWARD, data=safetensors.numpy.save(tensors, metadata or None), timeout=60,
                             headers={"Content-Type": SAFETENSORS, "Accept": accept})

    def answer(self, *arguments):
        response = self.post(*arguments)
        self.assertEqual(response.status_code, 200, response.text[:300])
        self.assertEqual(response.headers["Content-Type"], SAFETENSORS)
        return safetensors.numpy.load(response.content)

    def expect(self, answer, wanted):
        near(self, answer["output"], wanted["output"])
        near(self, answer["attention"], wanted["attention"])

    def test_a_real_layer(self):
        sentence = real_sentence()
        self.expect(self.answer({"input": sentence["input"]}, {"weights": REAL_MODEL}), sentence)

    def test_members(self):
        for name in ("prototype", "cross_causal", "bias", "padding"):
            case = Case(name)
            with self.subTest(name):
                self.expect(self.answer(case.tensors, case.members), {"output": case.output, "attention": case.attention})

    def test_masks(self):
        case = Case("padding")
        for kind in (numpy.bool_, numpy.uint8, numpy.int32, numpy.int64, numpy.float16):
            with self.subTest(kind.__name__):
                tensors = {**case.tensors, "attention_mask": case.tensors["attention_mask"].astype(kind)}
                self.expect(self.answer(tensors), {"output": case.output, "attention": case.attention})

    def test_answered_in_json(self):
        case = Case("prototype")
        response = self.post(case.tensors, None, "application/json")
        self.assertEqual(response.status_code, 200, response.text[:300])
        near(self, response.json()["output"], case.output)

    def test_asked_in_json(self):
        case = Case("prototype")
        response = requests.post(FORWARD, json=case.request, headers={"Accept": SAFETENSORS}, timeout=60)
        self.assertEqual(response.status_code, 200, response.text[:300])
        self.expect(safetensors.numpy.load(response.content), {"output": case.output, "attention": case.attention})

    def test_largest_weights(self):
        case = Case("prototype")
        answer = self.answer(case.tensors, {"top_k": 2, "return": ["attention"]})
        self.assertEqual(answer["attention_keys"].dtype, numpy.int32)
        near(self, answer["attention_weights"], -numpy.sort(-case.attention)[..., :2])
        near(self, numpy.take_along_axis(case.attention, answer["attention_keys"].astype(int), -1), answer["attention_weights"])

    def test_a_wrong_file(self):
        for body in (b"", b"\x08\0\0\0\0\0\0\0{}", safetensors.numpy.save({"input": numpy.zeros((1, 4, 64), numpy.float32)})[:-4]):
            response = requests.post(FORWARD, data=body, headers={"Content-Type": SAFETENSORS}, timeout=60)
            self.assertEqual(response.status_code, 400, response.text[:300])
        response = self.post({"input": numpy.zeros((1, 4, 63), numpy.float32)})
        self.assertEqual(response.status_code, 422)
        self.assertEqual(response.json()["pointer"], "/input")


if __name__ == "__main__":
    unittest.main()
