const input = [Array(64).fill(0.5), Array(64).fill(-0.25)];
const answer = await fetch('http://127.0.0.1:8080/v1/forward', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ input, return: ['attention'] }),
});
if (!answer.ok) throw new Error((await answer.json()).detail);
const { attention } = await answer.json();
console.log('head 0:', attention[0]);
