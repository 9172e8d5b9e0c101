// A worker for Headway in JavaScript: `HEADWAY_KEY=hw_… node worker.mjs`. It needs Node 20 and nothing else.
const { HEADWAY_URL = "http://127.0.0.1:8000", HEADWAY_KEY } = process.env;
const worker = `javascript-${crypto.randomUUID()}`;
const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => stop.abort());

// What charts call by name in `run=`: each gets the work, and returns a result or throws.
const handlers = {
  pay: async ({ context, tell }) => {
    if (context.amount > 1000) throw Object.assign(new Error("too much"), { code: "LIMIT" });
    await tell({ progress: 0.5, message: "half of it" });
    return { paid: context.amount };
  },
};

const post = async (path, body, signal) => {
  const headers = { authorization: `Bearer ${HEADWAY_KEY}`, "content-type": "application/json" };
  const request = { method: "POST", headers, body: JSON.stringify({ worker, ...body }), signal };
  const answer = await fetch(`${HEADWAY_URL}/v1/work/${path}`, request);
  if (!answer.ok && answer.status !== 409) throw new Error(`${answer.status} ${await answer.text()}`);
  return answer.json(); // 409: the work is not this worker's any more, and nobody waits for its word
};
const later = ({ message, cause }) => {
  if (!stop.signal.aborted) console.error(HEADWAY_URL, message, cause?.code ?? "");
  if (/^40[13] /.test(message)) stop.abort((process.exitCode = 1)); // the key will not get better
  return new Promise((go) => setTimeout(go, stop.signal.aborted ? 0 : 1000));
};
const run = async ({ id, attempt, handler, heartbeat_ms, ...work }) => {
  const say = (what, more) => post(`${encodeURIComponent(id)}/${what}`, { attempt, ...more });
  const tell = (more) => say("heartbeat", more).catch(console.error);
  const beats = setInterval(tell, heartbeat_ms, {});
  const done = handlers[handler]({ id, attempt, tell, ...work }).then((result) => ["complete", { result }]);
  const outcome = await done.catch(({ code = "Error", message }) => ["fail", { code, message }]);
  await say(...outcome).catch(console.error).finally(() => clearInterval(beats));
};

while (!stop.signal.aborted) {
  const asked = { handlers: Object.keys(handlers), limit: 10, wait: 30 };
  await post("claim", asked, stop.signal).then(({ items }) => Promise.all(items.map(run)), later);
}
