import { createClient } from "../client/client/index.ts";
import { MemForestError, errorOf } from "./errors.ts";

export interface MemForestOptions {
  /** Where `memforest serve` answers, such as `http://localhost:8080`. */
  url: string;
  /** What `memforest keys create` printed. */
  key: string;
  /** Further attempts after a refusal or an outage that may be over soon; 3 unless given. */
  retries?: number;
  /** Milliseconds for one attempt, in addition to what the call itself waits (`timeout_s`); 60,000 unless given. */
  timeoutMs?: number;
  /** In place of the global `fetch`. */
  fetch?: typeof fetch;
}

export interface CallOptions {
  /** Ends the call, its retries and its stream. */
  signal?: AbortSignal;
  /** As in MemForestOptions, for this call. */
  timeoutMs?: number;
  /** As in MemForestOptions, for this call. */
  retries?: number;
}

/** What a function of the generated client hands to its client. */
export interface Generated {
  url: string;
  headers?: Record<string, string>;
  bodySerializer?: null;
  args: Record<string, unknown>;
}

export interface Sent extends Generated {
  operation: string;
  verb: string;
}

/** Operations that change nothing, or nothing more when they are repeated, although they are sent by POST. */
export const REPEATABLE: ReadonlySet<string> = new Set(
  "recall recallMany answer context intent flush enqueue sessionsStream".split(" "),
);
const LINES = "application/x-ndjson";
const LATER = 503;
const REFUSED = 429;
const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 30_000;

/** Sends calls: each attempt has its time, and what may be repeated is. */
export class Transport {
  readonly #client: ReturnType<typeof createClient>;
  readonly #options: MemForestOptions;

  constructor(options: MemForestOptions) {
    if (!/^https?:\/\//.test(options.url)) throw new TypeError("Give the server's url as http:// or https://.");
    if (!options.key) throw new TypeError("Give the key that memforest keys create printed.");
    this.#options = options;
    this.#client = createClient({
      baseUrl: options.url.replace(/\/+$/, ""),
      auth: options.key,
      ...(options.fetch === undefined ? {} : { fetch: options.fetch }),
    });
  }

  /** The answer to a call; throws MemForestError, and the reason of an aborted `signal`. */
  async send(sent: Sent, options: CallOptions = {}, parseAs: "auto" | "stream" = "auto"): Promise<unknown> {
    const retries = options.retries ?? this.#options.retries ?? 3;
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#attempt(sent, options, parseAs);
      } catch (error) {
        const delay = error instanceof MemForestError ? delayBefore(error, sent, attempt) : undefined;
        if (delay === undefined || attempt >= retries) throw error;
        await pause(delay, options.signal);
      }
    }
  }

  async #attempt(sent: Sent, options: CallOptions, parseAs: "auto" | "stream"): Promise<unknown> {
    const waits = Number(sent.args["timeout_s"] ?? 0) + Number(sent.args["room_timeout_s"] ?? 0);
    const limit = (options.timeoutMs ?? this.#options.timeoutMs ?? 60_000) + 1_000 * waits;
    const expired = AbortSignal.timeout(limit);
    const signal = options.signal === undefined ? expired : AbortSignal.any([options.signal, expired]);
    const { data, error, response } = await this.#client.request({
      ...requestOf(sent),
      security: [{ scheme: "bearer", type: "http" }],
      url: sent.url,
      method: sent.verb as "GET",
      parseAs: sent.headers?.["Content-Type"] === LINES ? "text" : parseAs,
      signal,
    });
    if (response !== undefined && !response.ok) {
      const failed = errorOf(response, error);
      // An owner without a memory has an empty answer, as in the library.
      if (failed.problem?.result != null) return failed.problem.result;
      throw failed;
    }
    if (error === undefined) return response?.status === 204 ? undefined : data;
    options.signal?.throwIfAborted();
    const known = expired.aborted
      ? { code: "timeout", say: `did not answer within ${limit / 1000} seconds` }
      : { code: "server_unavailable", say: "can't be reached" };
    throw new MemForestError(`The MemForest server at ${this.#options.url} ${known.say}.`, {
      code: known.code,
      cause: error,
    });
  }
}

/** Where the arguments of a call go: into the path, then into the query of GET and the body of others. */
function requestOf({ url, verb, headers, args, bodySerializer }: Sent) {
  const names = new Set([...url.matchAll(/\{(\w+)\}/g)].map((found) => found[1]));
  const path = Object.fromEntries(Object.entries(args).filter(([name]) => names.has(name)));
  const rest = Object.fromEntries(Object.entries(args).filter(([name, value]) => !names.has(name) && value != null));
  if (verb === "GET") return { path, query: rest };
  if (headers?.["Content-Type"] === "application/json") return { path, headers, body: rest };
  const { body, ...query } = rest;
  // A file, or lines: as they are.
  return { path, headers, query, body, bodySerializer: bodySerializer ?? ((given: unknown) => given as string) };
}

/** Milliseconds until a call may be sent again; undefined when it may not. */
function delayBefore(error: MemForestError, sent: Sent, attempt: number): number | undefined {
  const repeatable = sent.verb !== "POST" || REPEATABLE.has(sent.operation) || namesItsTurn(sent);
  const outage = error.status === LATER || error.code === "server_unavailable";
  if (error.status !== REFUSED && !(outage && repeatable)) return undefined;
  const delay = error.retryAfter === undefined ? undefined : 1_000 * error.retryAfter;
  if (delay !== undefined) return delay <= MAX_DELAY_MS ? delay : undefined;
  return FIRST_DELAY_MS * 2 ** attempt * (1 + Math.random());
}

/** Whether it appends a turn with an id: the same again adds nothing. */
function namesItsTurn({ operation, args }: Sent): boolean {
  const turn = operation === "append" ? args["turn"] : undefined;
  return typeof turn === "object" && turn !== null && "id" in turn && Boolean(turn.id);
}

export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
