// Remembers a conversation, waits for its facts, asks about it, and shows what an error looks like.
//
//     MEMFOREST_URL=http://localhost:8080 MEMFOREST_KEY=mf_... node example.ts
//
// Node 22.18 or newer runs it as it is: no build, no packages.
import process from "node:process";
import { client } from "./client/client.gen.ts";
import { enqueue, lifecycleForget, recall, status, wait } from "./client/sdk.gen.ts";
import type { Problem } from "./client/types.gen.ts";

const OWNER = "alice";
const SESSION = "typescript-1";

/** What a call gave; an error's code says what to do about it. */
async function given<T>(call: Promise<{ data?: T; error?: Problem | unknown }>): Promise<T> {
  const { data, error } = await call;
  if (data !== undefined) return data;
  const problem = error as Problem; // every error of the service is one
  throw Object.assign(new Error(problem.detail), { code: problem.code, retryAfter: problem.retry_after });
}

client.setConfig({ baseUrl: process.env.MEMFOREST_URL ?? "http://localhost:8080", auth: process.env.MEMFOREST_KEY });

await given(
  enqueue({
    body: {
      owner: OWNER,
      session_id: SESSION,
      turns: [
        { role: "user", name: "Alice", content: "I moved from Porto to Lisbon.", timestamp: "2026-05-20T18:00:00Z" },
        { role: "assistant", content: "How do you like it?", timestamp: "2026-05-20T18:00:10Z" },
      ],
    },
  }),
);
// Durable as soon as it returned. The facts come by themselves; a program that needs them now waits.
await given(wait({ query: { owner: OWNER, session_id: SESSION, stage: "facts", timeout_s: 60 } }));
console.log("stage:", (await given(status({ query: { owner: OWNER, session_id: SESSION } }))).stage);

const found = await given(recall({ body: { owner: OWNER, question: "Where does Alice live?", k: 3 } }));
for (const evidence of found.evidence) console.log("found:", evidence.text);

// The same session again is free; another text under its id contradicts what is stored.
const contradiction = await enqueue({
  body: { owner: OWNER, session_id: SESSION, turns: [{ role: "user", content: "I never moved." }] },
});
console.log("error:", contradiction.response?.status, (contradiction.error as Problem).code);

try {
  await given(recall({ body: { owner: "nobody", question: "Where does Bob live?" } }));
} catch (error) {
  const { code } = error as { code?: string };
  if (code !== "owner_unknown") throw error; // wait_timeout: ask again; store_unavailable: after retryAfter seconds
  console.log("error:", code);
}

await given(lifecycleForget({ body: { owner: OWNER, session: SESSION, actor: "example" } }));
