// fetch of Node 18 or later: numbers, base64, binary tensors, a problem. usage: fetch.mjs BASE_URL GOLDEN_FOLDER
//
// Exit code 0 when every answer is within 1e-5 + 1e-5 |value| of the golden one.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

const [base, golden] = process.argv.slice(2);
const { request, expect } = JSON.parse(readFileSync(`${golden}/forward/prototype.json`, 'utf8'));
const input = Float32Array.from(request.input.flat(Infinity));
const shape = [request.input.length, request.input[0].length, request.input[0][0].length];

function near(got, wanted, what) {
    const expected = wanted.flat(Infinity);
    assert.equal(got.length, expected.length, `${what}: ${got.length} numbers, expected ${expected.length}`);
    expected.forEach((value, i) => {
        const far = Math.abs(got[i] - value);
        assert.ok(far <= 1e-5 * (1 + Math.abs(value)), `${what}: number ${i} is ${got[i]}, expected ${value}`);
    });
}

const post = (path, body, headers = {}) =>
    fetch(base + path, { method: 'POST', headers: { 'Content-Type': 'application/json', ...headers }, body });

async function numbers() {
    const response = await post('/v1/forward', JSON.stringify(request));
    assert.equal(response.status, 200);
    const answer = await response.json();
    near(answer.output.flat(Infinity), expect.output, 'output');
    near(answer.attention.flat(Infinity), expect.attention, 'attention');
}

async function base64() {
    const tensor = { shape, dtype: 'f32', base64: Buffer.from(input.buffer).toString('base64') };
    const response = await post('/v1/forward', JSON.stringify({ input: tensor, encoding: 'base64' }));
    assert.equal(response.status, 200);
    const { output } = await response.json();
    assert.deepEqual(output.shape, shape);
    near(new Float32Array(Uint8Array.from(Buffer.from(output.base64, 'base64')).buffer), expect.output, 'output in base64');
}

async function binary() {
    const head = new TextEncoder().encode(JSON.stringify({
        inputs: [{ name: 'input', shape, datatype: 'FP32', parameters: { binary_data_size: input.byteLength } }],
        outputs: [{ name: 'output', parameters: { binary_data: true } }],
    }));
    const response = await post('/v2/models/demo/infer', new Blob([head, input]), {
        'Content-Type': 'application/octet-stream',
        'Inference-Header-Content-Length': String(head.length),
    });
    assert.equal(response.status, 200);
    const length = Number(response.headers.get('inference-header-content-length'));
    const body = await response.arrayBuffer();
    const [output] = JSON.parse(new TextDecoder().decode(body.slice(0, length))).outputs;
    assert.deepEqual(output.shape, shape);
    assert.equal(output.parameters.binary_data_size, input.byteLength);
    near(new Float32Array(body.slice(length)), expect.output, 'output as bytes');
}

async function problem() {
    const response = await post('/v1/forward', JSON.stringify({ input: [[1, 2, 3]] }));
    assert.equal(response.status, 422);
    assert.equal(response.headers.get('content-type'), 'application/problem+json');
    assert.equal((await response.json()).pointer, '/input');
}

for (const step of [numbers, base64, binary, problem]) {
    await step();
    console.log(`fetch, ${step.name}: ok`);
}
