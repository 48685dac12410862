#!/usr/bin/env node
// A client of attnd for Node 18 or later, without packages. usage: node client.mjs [BASE_URL]
//
// It asks for the attention of four tokens twice, with JSON numbers and with base64, prints what came back, and compares the two. Then
// it sends a request that is wrong on purpose, to show what an error looks like. Exit code 0 when all went as it should.

const ATTEMPTS = 5;

/** An error of the service: the members of its RFC 9457 document. */
class Problem extends Error {
    constructor(status, document) {
        super(document.detail ?? `status ${status}`);
        this.status = status;
        this.pointer = document.pointer;
        this.requestId = document.instance;
    }
}

const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

/** Posts JSON and returns the answer's JSON. A busy server (429, 503) is asked again after the time it names. */
async function post(base, path, body) {
    for (let attempt = 1; ; attempt++) {
        const answer = await fetch(base + path, {
            method: 'POST',
            headers: { 'Content-Type': 'application/json' },
            body: JSON.stringify(body),
        });
        if (answer.ok) {
            return answer.json();
        }
        const text = await answer.text();
        if ((answer.status === 429 || answer.status === 503) && attempt < ATTEMPTS) {
            const seconds = Number(answer.headers.get('retry-after') ?? 1);
            await sleep(Number.isFinite(seconds) ? seconds : 1);
            continue;
        }
        const isProblem = (answer.headers.get('content-type') ?? '').startsWith('application/problem+json');
        throw new Problem(answer.status, isProblem ? JSON.parse(text) : {});
    }
}

/** Numbers in row-major order as the tensor form that costs the least to send. */
function toBase64(values, shape) {
    const bytes = Buffer.alloc(4 * values.length);
    values.forEach((value, i) => bytes.writeFloatLE(value, 4 * i));
    return { shape, dtype: 'f32', base64: bytes.toString('base64') };
}

function fromBase64(tensor) {
    const bytes = Buffer.from(tensor.base64, 'base64');
    return Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i));
}

async function main() {
    const base = (process.argv[2] ?? 'http://127.0.0.1:8080').replace(/\/+$/, '');
    const [nTokens, dModel] = [4, 64];
    const tokens = Array.from({ length: nTokens }, (_, i) => Array.from({ length: dModel }, (_, j) => Math.sin(0.1 * i * (j + 1))));

    const answer = await post(base, '/v1/forward', { input: tokens, id: 'javascript' });
    console.log(`weights ${answer.weights}, shapes ${JSON.stringify(answer.shapes)}`);
    answer.attention.forEach((rows, head) => {
        const weights = rows[nTokens - 1].map((weight) => weight.toFixed(3)).join(' ');
        console.log(`head ${head}: the last token attends to ${weights}`);
    });

    const packed = toBase64(tokens.flat(), [nTokens, dModel]);
    const same = await post(base, '/v1/forward', { input: packed, return: ['output'], encoding: 'base64' });
    console.log(`base64: shapes ${JSON.stringify(same.shapes)}, timing in us ${JSON.stringify(same.timing_us)}`);
    const output = answer.output.flat();
    const difference = Math.max(...fromBase64(same.output).map((value, i) => Math.abs(value - output[i])));
    console.log(`largest difference between the two outputs: ${difference}`);
    if (!(difference <= 1e-5)) {
        throw new Error('the two outputs differ');
    }

    try {
        await post(base, '/v1/forward', { input: [[1, 2, 3]] });
    } catch (error) {
        if (!(error instanceof Problem)) {
            throw error;
        }
        console.log(`a wrong request is answered with ${error.status} at ${error.pointer}: ${error.message}`);
        return;
    }
    throw new Error('a wrong request was not refused');
}

main().catch((error) => {
    // fetch says only "fetch failed"; why (no server there, a name unknown) is in the cause.
    console.error(`failed: ${error.message}${error.cause?.message ? `: ${error.cause.message}` : ''}`);
    process.exitCode = 1;
});
