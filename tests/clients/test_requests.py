"""requests with /v1/forward: numbers, base64, compressed bodies and answers, problems."""
import base64
import gzip
import json
import unittest
import zlib

import numpy
import requests
from golden import BASE, Case, near, reference

FORWARD = BASE + "/v1/forward"
KINDS = {"f32": "<f4", "f16": "<f2", "f64": "<f8"}


def packed(array, dtype="f32"):
    data = base64.b64encode(array.astype(KINDS[dtype]).tobytes()).decode()
    return {"shape": array.shape, "dtype": dtype, "base64": data}


def unpacked(tensor):
    return numpy.frombuffer(base64.b64decode(tensor["base64"]), KINDS[tensor["dtype"]]).reshape(tensor["shape"])


class Requests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.session = requests.Session()

    @classmethod
    def tearDownClass(cls):
        cls.session.close()

    def answer(self, **arguments):
        response = self.session.post(FORWARD, timeout=60, **arguments)
        self.assertEqual(response.status_code, 200, response.text[:300])
        return response

    def expect(self, answer, case):
        near(self, answer["output"], case.output)
        near(self, answer["attention"], case.attention)

    def test_numbers(self):
        for name in ("prototype", "padding", "cross_causal", "fully_masked_row"):
            case = Case(name)
            with self.subTest(name):
                self.expect(self.answer(json=case.request).json(), case)

    def test_base64(self):
        for name in ("prototype", "padding", "bias"):
            case = Case(name)
            body = {**case.members, **{member: packed(array) for member, array in case.tensors.items()}, "encoding": "base64"}
            with self.subTest(name):
                answer = self.answer(json=body).json()
                self.expect({member: unpacked(answer[member]) for member in ("output", "attention")}, case)

    def test_double_precision(self):
        case = Case("prototype")
        self.expect(self.answer(json={"input": packed(case.tensors["input"], "f64")}).json(), case)

    def test_half_precision(self):
        halves = Case("prototype").tensors["input"].astype(numpy.float16)
        answer = self.answer(json={"input": packed(halves, "f16")}).json()
        output, attention = reference(halves)
        near(self, answer["output"], output)
        near(self, answer["attention"], attention)

    def test_compressed_answers(self):
        case = Case("prototype")
        response = self.answer(json=case.request, headers={"Accept-Encoding": "gzip"})
        self.assertEqual(response.headers.get("Content-Encoding"), "gzip")
        self.expect(response.json(), case)
        response = self.answer(json=case.request, headers={"Accept-Encoding": "identity"})
        self.assertNotIn("Content-Encoding", response.headers)
        self.expect(response.json(), case)

    def test_compressed_bodies(self):
        case = Case("prototype")
        body = json.dumps(case.request).encode()
        for encoding, compress in (("gzip", gzip.compress), ("deflate", zlib.compress)):
            with self.subTest(encoding):
                headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
                self.expect(self.answer(data=compress(body), headers=headers).json(), case)

    def test_chunks(self):
        case = Case("prototype")
        body = json.dumps(case.request).encode()
        parts = (body[i:i + 1000] for i in range(0, len(body), 1000))
        self.expect(self.answer(data=parts, headers={"Content-Type": "application/json"}).json(), case)

    def test_a_problem(self):
        response = self.session.post(FORWARD, json={"input": [[[1.0] * 63]]}, timeout=60)
        self.assertEqual(response.status_code, 422)
        self.assertEqual(response.headers["Content-Type"], "application/problem+json")
        problem = response.json()
        self.assertEqual(problem["pointer"], "/input")
        self.assertRegex(problem["detail"], r"63.*64|64.*63")
        with self.assertRaises(requests.HTTPError):
            response.raise_for_status()


if __name__ == "__main__":
    unittest.main()
