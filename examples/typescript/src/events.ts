import type { Problem } from "../client/types.gen.ts";
import { MemForestError } from "./errors.ts";
import { type CallOptions, type Sent, type Transport, pause } from "./transport.ts";

/** One state of what a stream follows: `progress` until `end`, or `timeout` when `timeout_s` is over. */
export type ServerEvent<T> = { event: "progress" | "end"; data: T } | { event: "timeout"; data: Record<string, never> };

const RECONNECT_MS = 500;

/**
 * The events of a stream until its end. A connection that breaks is opened again, at most `retries` times in a row;
 * a `problem`, such as a revoked key, is thrown.
 */
export async function* events<T>(
  transport: Transport,
  sent: Sent,
  options: CallOptions,
): AsyncGenerator<ServerEvent<T>, void, undefined> {
  const retries = options.retries ?? 3;
  for (let broken = 0; ; ) {
    const stream = (await transport.send(sent, options, "stream")) as ReadableStream<Uint8Array>;
    try {
      for await (const { event, data } of read(stream)) {
        broken = 0;
        if (event === "problem") throw problemOf(data as Problem);
        yield { event, data } as ServerEvent<T>;
        if (event !== "progress") return;
      }
    } catch (error) {
      options.signal?.throwIfAborted();
      if (error instanceof MemForestError) throw error;
      // The connection broke: the next one begins with the state as it is then.
    }
    if (++broken > retries) {
      throw new MemForestError("The stream broke off before its end.", { code: "server_unavailable" });
    }
    await pause(RECONNECT_MS * broken, options.signal);
  }
}

async function* read(stream: ReadableStream<Uint8Array>): AsyncGenerator<{ event: string; data: unknown }> {
  let rest = "";
  let event = "";
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  try {
    for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) {
      const lines = (rest + decoder.decode(chunk.value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line.startsWith("event: ")) event = line.slice(7);
        else if (line.startsWith("data: ")) yield { event, data: JSON.parse(line.slice(6)) };
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined); // a broken connection can't be closed
  }
}

function problemOf(problem: Problem): MemForestError {
  return new MemForestError(problem.detail, { code: problem.code, status: problem.status, problem });
}
