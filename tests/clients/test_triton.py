"""tritonclient.http, the client of the Open Inference Protocol with binary tensors, as its users call it."""
import asyncio
import unittest

import numpy
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from golden import ADDRESS, MODEL, Case, near, reference
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

UNKNOWN_MODEL = "no-such-model"


def tensor(name, array, binary=True):
    made = triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def tensors(case, binary=True):
    return [tensor(name, array, binary) for name, array in case.tensors.items()]


def outputs(binary=True):
    return [triton.InferRequestedOutput(name, binary_data=binary) for name in ("output", "attention")]


class Triton(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = triton.InferenceServerClient(ADDRESS, concurrency=8)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()

    def expect(self, result, case):
        near(self, result.as_numpy("output"), case.output)
        near(self, result.as_numpy("attention"), case.attention)


class Descriptions(Triton):
    def test_health(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready(MODEL))
        self.assertTrue(self.client.is_model_ready(MODEL, "1"))
        self.assertFalse(self.client.is_model_ready(MODEL, "2"))
        self.assertFalse(self.client.is_model_ready(UNKNOWN_MODEL))

    def test_server_metadata(self):
        server = self.client.get_server_metadata()
        self.assertEqual(server["name"], "attnd")
        self.assertIn("binary_tensor_data", server["extensions"])

    def test_model_metadata(self):
        model = self.client.get_model_metadata(MODEL)
        self.assertEqual((model["name"], model["versions"]), (MODEL, ["1"]))
        inputs = {one["name"]: one for one in model["inputs"]}
        self.assertEqual(inputs["input"]["datatype"], "FP32")
        self.assertEqual(inputs["input"]["shape"][-1], 64)
        self.assertLessEqual({"output", "attention"}, {one["name"] for one in model["outputs"]})

    def test_model_config(self):
        config = self.client.get_model_config(MODEL)
        self.assertEqual(config["name"], MODEL)
        inputs = {one["name"]: one for one in config["input"]}
        self.assertEqual(inputs["input"]["data_type"], "TYPE_FP32")
        self.assertEqual(inputs["input"]["dims"][-1], 64)
        self.assertLessEqual({"output", "attention"}, {one["name"] for one in config["output"]})

    def test_repository_index(self):
        models = {model["name"]: model for model in self.client.get_model_repository_index()}
        self.assertEqual((models[MODEL]["version"], models[MODEL]["state"]), ("1", "READY"))
        self.assertIn("reason", models[MODEL])

    def test_statistics_count(self):
        case = Case("prototype")

        def counts():
            model, = self.client.get_inference_statistics(MODEL)["model_stats"]
            self.assertEqual((model["name"], model["version"]), (MODEL, "1"))
            return model["inference_count"], model["execution_count"], model["inference_stats"]["success"]["count"]

        before = counts()
        for _ in range(3):
            self.client.infer(MODEL, tensors(case))
        # A batch is an inference a sequence, and an execution may hold several requests.
        after = counts()
        self.assertEqual(after[0] - before[0], 3 * len(case.output))
        self.assertTrue(1 <= after[1] - before[1] <= 3)
        self.assertEqual(after[2] - before[2], 3)


class Inference(Triton):
    def test_forms_of_tensors(self):
        case = Case("prototype")
        for sent in (False, True):
            for received in (False, True):
                with self.subTest(sent_binary=sent, received_binary=received):
                    self.expect(self.client.infer(MODEL, tensors(case, sent), outputs=outputs(received)), case)

    def test_json_beside_binary(self):
        case = Case("prototype")
        both = [triton.InferRequestedOutput("attention", binary_data=False), triton.InferRequestedOutput("output", binary_data=True)]
        result = self.client.infer(MODEL, tensors(case), outputs=both)
        self.expect(result, case)
        self.assertEqual([one["name"] for one in result.get_response()["outputs"]], ["attention", "output"])

    def test_answer(self):
        case = Case("prototype")
        result = self.client.infer(MODEL, tensors(case), request_id="an id", model_version="1")
        self.expect(result, case)
        answer = result.get_response()
        self.assertEqual((answer["id"], answer["model_name"], answer["model_version"]), ("an id", MODEL, "1"))
        self.assertEqual(result.get_output("output")["datatype"], "FP32")

    def test_one_output(self):
        case = Case("prototype")
        result = self.client.infer(MODEL, tensors(case), outputs=[triton.InferRequestedOutput("attention")])
        near(self, result.as_numpy("attention"), case.attention)
        self.assertIsNone(result.as_numpy("output"))

    def test_two_axes(self):
        case = Case("prototype_rank2")
        self.expect(self.client.infer(MODEL, tensors(case)), case)

    def test_cross_attention_and_parameters(self):
        case = Case("cross_causal")
        self.assertEqual(case.members, {"causal": True})
        self.expect(self.client.infer(MODEL, tensors(case), parameters={"causal": True}), case)

    def test_masks(self):
        case = Case("padding")
        for kind in (numpy.bool_, numpy.uint8, numpy.int32, numpy.int64, numpy.float32):
            for binary in (True, False):
                with self.subTest(kind=kind.__name__, binary=binary):
                    mask = tensor("attention_mask", case.tensors["attention_mask"].astype(kind), binary)
                    self.expect(self.client.infer(MODEL, [tensor("input", case.tensors["input"]), mask]), case)

    def test_bias_and_head_mask(self):
        for name in ("bias", "head_mask"):
            case = Case(name)
            with self.subTest(name):
                self.expect(self.client.infer(MODEL, tensors(case)), case)

    def test_double_precision(self):
        case = Case("prototype")
        self.expect(self.client.infer(MODEL, [tensor("input", case.tensors["input"].astype(numpy.float64))]), case)

    def test_half_precision(self):
        halves = Case("prototype").tensors["input"].astype(numpy.float16)
        output, attention = reference(halves)
        result = self.client.infer(MODEL, [tensor("input", halves)])
        near(self, result.as_numpy("output"), output)
        near(self, result.as_numpy("attention"), attention)

    def test_compression(self):
        case = Case("prototype")
        for sent in (None, "gzip", "deflate"):
            for received in (None, "gzip", "deflate"):
                for binary in (True, False):
                    with self.subTest(sent=sent, received=received, binary=binary):
                        result = self.client.infer(MODEL, tensors(case, binary), outputs=outputs(binary),
                                                   request_compression_algorithm=sent, response_compression_algorithm=received)
                        self.expect(result, case)

    def test_side_by_side(self):
        cases = [Case(name) for name in ("prototype", "padding", "one_token", "bias") * 4]
        pending = [self.client.async_infer(MODEL, tensors(case)) for case in cases]
        for case, answer in zip(cases, pending):
            self.expect(answer.get_result(timeout=60), case)


class Asynchronous(unittest.IsolatedAsyncioTestCase):
    async def test_side_by_side(self):
        cases = [Case(name) for name in ("prototype", "padding", "one_token", "bias") * 2]
        async with triton_aio.InferenceServerClient(ADDRESS) as client:
            self.assertTrue(await client.is_model_ready(MODEL))
            answers = await asyncio.gather(*[client.infer(MODEL, tensors(case)) for case in cases])
        for case, answer in zip(cases, answers):
            near(self, answer.as_numpy("output"), case.output)
            near(self, answer.as_numpy("attention"), case.attention)


class Refusals(Triton):
    def refused(self, call, *words):
        with self.assertRaises(InferenceServerException) as caught:
            call()
        for word in words:
            self.assertIn(word, caught.exception.message())
        return caught.exception.status()

    def test_wrong_shape(self):
        wrong = numpy.zeros((1, 4, 63), numpy.float32)
        for binary in (True, False):
            with self.subTest(binary=binary):
                self.assertEqual(self.refused(lambda: self.client.infer(MODEL, [tensor("input", wrong, binary)]), "63", "64"), "400")
        with self.assertRaises(InferenceServerException):
            self.client.async_infer(MODEL, [tensor("input", wrong)]).get_result(timeout=60)

    def test_unknown_model(self):
        self.assertEqual(self.refused(lambda: self.client.infer(UNKNOWN_MODEL, tensors(Case("prototype"))), UNKNOWN_MODEL, MODEL), "404")
        self.assertEqual(self.refused(lambda: self.client.get_model_metadata(UNKNOWN_MODEL), UNKNOWN_MODEL), "404")

    def test_unknown_output(self):
        wanted = [triton.InferRequestedOutput("logits")]
        self.assertEqual(self.refused(lambda: self.client.infer(MODEL, tensors(Case("prototype")), outputs=wanted), "logits"), "400")

    def test_unknown_input(self):
        both = [*tensors(Case("prototype")), tensor("input_ids", numpy.zeros((1, 4), numpy.int64))]
        self.assertEqual(self.refused(lambda: self.client.infer(MODEL, both), "input_ids"), "400")

    def test_the_connection_goes_on(self):
        case = Case("prototype")
        for _ in range(3):
            self.refused(lambda: self.client.infer(MODEL, [tensor("input", numpy.zeros((1, 4, 3), numpy.float32))]))
            self.expect(self.client.infer(MODEL, tensors(case)), case)


if __name__ == "__main__":
    unittest.main()
