// Remembers a conversation, waits for its facts, asks about it, and shows what an error looks like.
//
//     MEMFOREST_URL=http://localhost:8080 MEMFOREST_KEY=mf_... node example.ts
//
// Node 22.18 or newer runs it as it is. With the package installed, import from "memforest-client" instead.
import process from "node:process";
import { MemForest, MemForestError } from "./src/index.ts";

const owner = "alice";
const session_id = "typescript-1";
const memory = new MemForest({
  url: process.env.MEMFOREST_URL ?? "http://localhost:8080",
  key: process.env.MEMFOREST_KEY ?? "",
});

await memory.enqueue({
  owner,
  session_id,
  turns: [
    { role: "user", name: "Alice", content: "I moved from Porto to Lisbon.", timestamp: "2026-05-20T18:00:00Z" },
    { role: "assistant", content: "How do you like it?", timestamp: "2026-05-20T18:00:10Z" },
  ],
});
// Durable as soon as it returned. The facts come by themselves; a program that needs them now waits, or follows.
for await (const { event, data } of memory.sessionEvents({ owner, session_id, timeout_s: 60 })) {
  console.log(`${event}:`, event === "timeout" ? "" : data.stage);
}

const found = await memory.recall({ owner, question: "Where does Alice live?", k: 3 });
for (const evidence of found.evidence) console.log("found:", evidence.text);
console.log("known:", (await memory.recall({ owner: "nobody", question: "Where does Bob live?" })).owner_known);

try {
  // The same session again is free; another text under its id contradicts what is stored.
  await memory.enqueue({ owner, session_id, turns: [{ role: "user", content: "I never moved." }] });
} catch (error) {
  if (!(error instanceof MemForestError)) throw error;
  console.log("error:", error.status, error.code);
}

await memory.lifecycleForget({ owner, session: session_id, actor: "example" });
