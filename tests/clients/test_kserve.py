"""KServe's own client for REST, InferenceRESTClient, with protocol version 2."""
import unittest

import httpx
import numpy
from golden import BASE, MODEL, Case, near
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.protocol.infer_type import RequestedOutput


def request(case, binary, outputs=()):
    inputs = []
    for name, array in case.tensors.items():
        made = InferInput(name=name, shape=list(array.shape), datatype="FP32")
        made.set_data_from_numpy(array, binary_data=binary)
        inputs.append(made)
    wanted = [RequestedOutput(name, parameters={"binary_data": binary}) for name in outputs]
    return InferRequest(model_name=MODEL, infer_inputs=inputs, request_outputs=wanted, request_id="an id", parameters=case.members)


class KServe(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = InferenceRESTClient(RESTConfig(protocol="v2", timeout=60))

    async def asyncTearDown(self):
        await self.client.close()

    def expect(self, response, case):
        found = {output.name: output.as_numpy() for output in response.outputs}
        near(self, found["output"], case.output)
        near(self, found["attention"], case.attention)

    async def test_health(self):
        self.assertIs(await self.client.is_server_live(BASE), True)
        self.assertIs(await self.client.is_server_ready(BASE), True)
        self.assertIs(await self.client.is_model_ready(BASE, MODEL), True)
        self.assertIs(await self.client.is_model_ready(BASE, "no-such-model"), False)

    async def test_infer(self):
        for name in ("prototype", "cross_causal"):
            case = Case(name)
            for binary in (True, False):
                with self.subTest(name, binary=binary):
                    response = await self.client.infer(BASE, request(case, binary, ("output", "attention")), model_name=MODEL)
                    self.assertEqual((response.id, response.model_name), ("an id", MODEL))
                    self.expect(response, case)

    async def test_no_outputs_named(self):
        case = Case("prototype")
        self.expect(await self.client.infer(BASE, request(case, False), model_name=MODEL), case)

    async def test_a_dictionary(self):
        case = Case("prototype")
        data = {"inputs": [{"name": "input", "shape": list(case.tensors["input"].shape), "datatype": "FP32",
                            "data": case.tensors["input"].ravel().tolist()}]}
        self.expect(await self.client.infer(BASE, data, model_name=MODEL), case)

    async def test_wrong_shape(self):
        case = Case("prototype")
        case.tensors["input"] = numpy.zeros((1, 4, 63), numpy.float32)
        for binary in (True, False):
            with self.subTest(binary=binary):
                with self.assertRaises(httpx.HTTPStatusError) as caught:
                    await self.client.infer(BASE, request(case, binary), model_name=MODEL)
                self.assertEqual(caught.exception.response.status_code, 400)
                self.assertIn("63", str(caught.exception))
                self.assertIn("64", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
