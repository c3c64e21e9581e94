// The middleware with the Vercel AI SDK and its mock model: versions 6, and 7 where Node is new enough.
import assert from "node:assert/strict";
import test from "node:test";
import { generateText, jsonSchema, stepCountIs, streamText, tool, wrapLanguageModel } from "ai";
import { MockLanguageModelV3, simulateReadableStream } from "ai/test";
import { MemForest } from "memforest-client";
import { memoryMiddleware } from "memforest-client/ai-sdk";

const memory = new MemForest({ url: process.env.MEMFOREST_URL ?? "", key: process.env.MEMFOREST_KEY ?? "" });
const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};
const ended = { finishReason: { unified: "stop" as const, raw: "stop" }, usage };
const called = { finishReason: { unified: "tool-calls" as const, raw: "tool" }, usage };
const words = (text: string) => ({ content: [{ type: "text" as const, text }], ...ended, warnings: [] });
const parts = (deltas: string[], whole: boolean) => [
  { type: "stream-start" as const, warnings: [] },
  { type: "text-start" as const, id: "1" },
  ...deltas.map((delta) => ({ type: "text-delta" as const, id: "1", delta })),
  { type: "text-end" as const, id: "1" },
  ...(whole ? [{ type: "finish" as const, ...ended }] : [{ type: "error" as const, error: new Error("broken off") }]),
];

async function stored(owner: string, session: string): Promise<string[]> {
  const found = await memory.turns({ owner, session_id: session });
  return found.items.map(({ role, content }) => `${role}: ${content}`);
}

const versions: [string, { generateText: typeof generateText; wrapLanguageModel: typeof wrapLanguageModel }][] = [
  ["6", { generateText, wrapLanguageModel }],
];
// Its types are of its own middleware; what is tested here is that it runs.
if (Number(process.versions.node.split(".")[0]) >= 22) versions.push(["7", (await import("ai7")) as never]);

for (const [version, sdk] of versions) {
  test(`version ${version}: a call is given what was said in an earlier session, and is stored`, async () => {
    const owner = `ai${version}-${process.version}`;
    const turns = [{ role: "user" as const, content: "I moved from Porto to Lisbon." }];
    await memory.enqueue({ owner, session_id: "before", turns, wait: "facts" });
    const mock = new MockLanguageModelV3({ doGenerate: async () => words("In Lisbon.") });
    const middleware = memoryMiddleware({ memory, owner, session: "now" });
    const model = sdk.wrapLanguageModel({ model: mock, middleware });
    const { text } = await sdk.generateText({ model, system: "Be brief.", prompt: "Where do I live?" });
    assert.equal(text, "In Lisbon.");
    const [own, context, asked] = mock.doGenerateCalls[0]?.prompt ?? [];
    assert.equal(own?.content, "Be brief.");
    assert.equal(context?.role, "system");
    assert.match(String(context?.content), /It is data[^]*<profile[^]*Lisbon/);
    assert.equal(asked?.role, "user");
    assert.deepEqual(await stored(owner, "now"), ["user: Where do I live?", "assistant: In Lisbon."]);
    await sdk.generateText({ model, prompt: "And before?" });
    assert.doesNotMatch(JSON.stringify(mock.doGenerateCalls[1]?.prompt), /<window/);
  });
}

test("a stream passes unchanged, and is stored when it is whole", async () => {
  const owner = `stream-${process.version}`;
  let whole = true;
  const mock = new MockLanguageModelV3({
    doStream: async () => ({ stream: simulateReadableStream({ chunks: parts(["By ", "tram."], whole) }) }),
  });
  const middleware = memoryMiddleware({ memory, owner, session: "s" });
  const model = wrapLanguageModel({ model: mock, middleware });
  const read = async (prompt: string) => {
    let text = "";
    for await (const part of streamText({ model, prompt, onError: () => undefined }).textStream) text += part;
    return text;
  };
  assert.equal(await read("How do I get around?"), "By tram.");
  whole = false;
  await read("And at night?");
  assert.deepEqual(await stored(owner, "s"), ["user: How do I get around?", "assistant: By tram."]);
});

test("the steps of a tool share one context, and what people said is stored once", async () => {
  const owner = `tools-${process.version}`;
  await memory.enqueue({ owner, session_id: "before", turns: [{ role: "user", content: "I like trams." }], wait: "raw" });
  const call = { type: "tool-call" as const, toolCallId: "1", toolName: "time", input: "{}" };
  const mock = new MockLanguageModelV3({
    doGenerate: [{ content: [call], ...called, warnings: [] }, words("Take the tram.")],
  });
  let recalls = 0;
  const counted = new Proxy(memory, {
    get: (target, name: keyof MemForest) => (name === "context" && recalls++, target[name]),
  });
  const middleware = memoryMiddleware({ memory: counted, owner, session: "s" });
  const tools = { time: tool({ inputSchema: jsonSchema({ type: "object" }), execute: async () => "noon" }) };
  const model = wrapLanguageModel({ model: mock, middleware });
  await generateText({ model, tools, prompt: "How do I get there?", stopWhen: stepCountIs(2) });
  assert.equal(recalls, 1);
  assert.match(JSON.stringify(mock.doGenerateCalls[1]?.prompt), /trams/);
  assert.deepEqual(await stored(owner, "s"), ["user: How do I get there?", "assistant: Take the tram."]);
});

test("a memory that is unavailable fails no call", async () => {
  const unavailable = new MemForest({ url: "http://127.0.0.1:9", key: "k", retries: 0 });
  const errors: unknown[] = [];
  const options = { memory: unavailable, owner: "o", session: "s", onError: (error: unknown) => errors.push(error) };
  const mock = new MockLanguageModelV3({ doGenerate: async () => words("Hello.") });
  const model = wrapLanguageModel({ model: mock, middleware: memoryMiddleware(options) });
  assert.equal((await generateText({ model, prompt: "Hello?" })).text, "Hello.");
  assert.equal(errors.length, 2);
});
