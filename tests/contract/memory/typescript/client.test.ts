// The packed client as a program has it: against a real server, and against one that fails as it is told to.
import assert from "node:assert/strict";
import { once } from "node:events";
import { type Server, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import test from "node:test";
import { MemForest, MemForestError, PREAMBLE, type RecallResult, contextText } from "memforest-client";

const url = process.env.MEMFOREST_URL ?? "";
const key = process.env.MEMFOREST_KEY ?? "";
const memory = new MemForest({ url, key });
const turns = [{ role: "user" as const, content: "I moved from Porto to Lisbon.", timestamp: "2026-05-20T18:00:00Z" }];

test("a session is stored, followed by its events, recalled, and forgotten", async () => {
  const owner = `client-${process.version}`;
  const stored = await memory.enqueue({ owner, session_id: "s1", turns });
  assert.equal(stored.accepted.new_turns, 1);
  const seen: string[] = [];
  for await (const { event } of memory.sessionEvents({ owner, session_id: "s1" })) seen.push(event);
  assert.equal(seen.at(-1), "end");
  const found: RecallResult = await memory.recall({ owner, question: "Where do I live?", k: 1 });
  assert.match(found.evidence[0]?.text ?? "", /Lisbon/);
  const task = await memory.lifecycleForget({ owner, session: "s1", actor: "test" });
  for await (const { event, data } of memory.operationEvents({ operation: task.id })) {
    if (event === "end") assert.equal(data.state, "done");
  }
  assert.equal((await memory.sessions({ owner })).items.length, 0);
});

test("lines and files go through as they are", async () => {
  const owner = `lines-${process.version}`;
  const lines = ["a", "b"].map((session_id) => JSON.stringify({ owner, session_id, turns })).join("\n");
  assert.match(await memory.sessionsStream({ body: lines }), /"line":2,"stored"/);
  await memory.wait({ owner, session_id: "b", stage: "facts", timeout_s: 60 });
  const bundle = (await memory.lifecycleExport({ owner })) as unknown as Blob;
  await memory.lifecycleImport({ owner: `${owner}-copy`, body: bundle });
  assert.equal((await memory.sessions({ owner: `${owner}-copy` })).items.length, 2);
});

test("errors have the code, the status and the problem of the service", async () => {
  const owner = `errors-${process.version}`;
  await memory.enqueue({ owner, session_id: "s1", turns });
  const other = [{ role: "user" as const, content: "I never moved." }];
  const unreachable = new MemForest({ url: "http://127.0.0.1:9", key, retries: 0 });
  const cases: [() => Promise<unknown>, Partial<MemForestError>][] = [
    [() => memory.enqueue({ owner, session_id: "s1", turns: other }), { code: "session_conflict", status: 409 }],
    [() => memory.turns({ owner, session_id: "none" }), { code: "not_found", status: 404 }],
    [() => new MemForest({ url, key: "mf_wrong" }).key(), { status: 401 }],
    [() => unreachable.key(), { code: "server_unavailable", status: undefined }],
  ];
  assert.equal((await memory.recall({ owner: "nobody", question: "Who?" })).owner_known, false);
  for (const [call, expected] of cases) {
    await assert.rejects(call(), (error: MemForestError) => {
      assert.ok(error instanceof MemForestError);
      for (const [name, value] of Object.entries(expected)) assert.equal(error[name as "code"], value);
      return true;
    });
  }
});

test("a context reads as the library writes it", async () => {
  const found = await memory.context({ owner: "written", session: "s1", question: "Where does Ana live?" });
  assert.equal(`${PREAMBLE}\n\n${contextText(found)}`, process.env.EXPECTED_CONTEXT);
});

type Scripted = { status: number; after?: string; body?: string; hang?: boolean; cut?: boolean };
type Reply = number | Scripted;

/** A client of a server that gives these replies, one a request, and the paths it was called with. */
async function failing(...replies: Reply[]): Promise<{ client: MemForest; calls: string[]; server: Server }> {
  const calls: string[] = [];
  const server = createServer((request, response) => {
    calls.push(request.url ?? "");
    const reply = replies[calls.length - 1] ?? 500;
    const { status, after, body, hang, cut } = typeof reply === "number" ? ({ status: reply } as Scripted) : reply;
    if (hang) return;
    response.statusCode = status;
    if (after !== undefined) response.setHeader("Retry-After", after);
    response.setHeader("Content-Type", body?.startsWith("event") ? "text/event-stream" : "application/json");
    if (cut) response.write(body, () => response.destroy());
    else response.end(body ?? JSON.stringify(status < 400 ? {} : { code: "x", detail: "No.", status }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { client: new MemForest({ url: `http://127.0.0.1:${port}`, key: "k", timeoutMs: 500 }), calls, server };
}

const turn = { role: "user" as const, content: "Hello." };
const patience: [string, Reply[], (client: MemForest) => Promise<unknown>, number, string?][] = [
  ["reads are repeated during an outage", [503, 503, 200], (client) => client.recall({ owner: "o", question: "?" }), 3],
  ["a session is the same when it is sent again", [503, 200], (c) => c.enqueue({ owner: "o", session_id: "s", turns }), 2],
  ["a turn without an id is not repeated", [503], (c) => c.append({ owner: "o", session_id: "s", turn }), 1, "x"],
  ["a turn with an id is", [503, 200], (c) => c.append({ owner: "o", session_id: "s", turn: { ...turn, id: "1" } }), 2],
  ["a refusal is repeated when it says", [{ status: 429, after: "0.2" }, 200], (c) => c.forget({ owner: "o", words: "x" }), 2],
  ["not after a longer time", [{ status: 429, after: "3600" }], (c) => c.quota(), 1, "x"],
  ["nor what is wrong", [422], (c) => c.quota(), 1, "x"],
  ["nor what does not answer", [{ status: 200, hang: true }], (c) => c.quota(), 1, "timeout"],
  ["retries end", [503, 503], (c) => c.quota({}, { retries: 1 }), 2, "x"],
];
for (const [name, replies, call, times, code] of patience) {
  test(name, async () => {
    const { client, calls, server } = await failing(...replies);
    if (code === undefined) await call(client);
    else await assert.rejects(call(client), { name: "MemForestError", code });
    assert.equal(calls.length, times);
    server.closeAllConnections();
    server.close();
  });
}

test("a caller ends a call, and a stream that breaks is opened again", async () => {
  const cut = { status: 200, body: 'event: progress\ndata: {"stage": "raw"}\n\n', cut: true };
  const ended = { status: 200, body: 'event: end\ndata: {"stage": "facts"}\n\n' };
  const { client, calls, server } = await failing(cut, ended, { status: 200, hang: true });
  const seen: string[] = [];
  for await (const { event } of client.sessionEvents({ owner: "o", session_id: "s/1" })) seen.push(event);
  assert.deepEqual(seen, ["progress", "end"]);
  assert.equal(calls[1], "/v1/sessions/events?owner=o&session_id=s%2F1");
  await assert.rejects(client.quota({}, { signal: AbortSignal.timeout(100) }), { name: "TimeoutError" });
  server.closeAllConnections();
  server.close();
});
