/** A client of MemForest's HTTP API: one method for each operation, with types, retries, timeouts and streams. */
import * as generated from "../client/sdk.gen.ts";
import type { OperationTask, SessionProgress } from "../client/types.gen.ts";
import { type ServerEvent, events } from "./events.ts";
import { type CallOptions, type Generated, type MemForestOptions, Transport } from "./transport.ts";

export type * from "../client/types.gen.ts";
export { PREAMBLE, contextText } from "./context.ts";
export { MemForestError } from "./errors.ts";
export type { ServerEvent } from "./events.ts";
export type { CallOptions, MemForestOptions } from "./transport.ts";

type Sdk = typeof generated;
type Streamed = "sessionEvents" | "operationEvents";
type Part<Request, Name extends string> = Request extends { [Key in Name]?: infer Value }
  ? [NonNullable<Value>] extends [never]
    ? unknown
    : NonNullable<Value> extends string | Blob
      ? { [Key in Name]: NonNullable<Value> }
      : NonNullable<Value>
  : unknown;
type RequestOf<Name extends keyof Sdk> = NonNullable<Parameters<Sdk[Name]>[0]>;

/** The arguments of an operation, whether they go into its path, its query or its body. */
export type Arguments<Name extends keyof Sdk> = Part<RequestOf<Name>, "path"> &
  Part<RequestOf<Name>, "query"> &
  Part<RequestOf<Name>, "body">;
/** What an operation answers. */
export type Result<Name extends Exclude<keyof Sdk, Streamed>> = NonNullable<Awaited<ReturnType<Sdk[Name]>>["data"]>;

type Calls = {
  [Name in keyof Sdk as Exclude<Name, Streamed>]: Record<never, never> extends Arguments<Name>
    ? (args?: Arguments<Name>, options?: CallOptions) => Promise<Result<Exclude<Name, Streamed>>>
    : (args: Arguments<Name>, options?: CallOptions) => Promise<Result<Exclude<Name, Streamed>>>;
};

interface Streams {
  /** The progress of a session, until its facts and summaries are there. */
  sessionEvents(
    args: Arguments<"sessionEvents">,
    options?: CallOptions,
  ): AsyncGenerator<ServerEvent<SessionProgress>, void, undefined>;
  /** The progress of an operation, until it has ended. */
  operationEvents(
    args: Arguments<"operationEvents">,
    options?: CallOptions,
  ): AsyncGenerator<ServerEvent<OperationTask>, void, undefined>;
}

/**
 * The memory on a server. Every operation of the HTTP API is a method with its arguments in one object, such as
 * `memory.recall({ owner, question })`. Methods throw MemForestError. An owner without a memory yet has empty results,
 * whose `owner_known` is false.
 */
export type MemForest = Calls & Streams;

function made(options: MemForestOptions): MemForest {
  const transport = new Transport(options);
  const called = (operation: string, func: (given: object) => unknown) => (args = {}, own: CallOptions = {}) => {
    const by = (verb: string) => (given: Generated) => transport.send({ ...given, operation, verb }, own);
    const stream = (given: Generated) =>
      events(transport, { ...given, operation, verb: "GET" }, { ...retriesOf(options), ...own });
    const client = { get: by("GET"), post: by("POST"), put: by("PUT"), delete: by("DELETE"), sse: { get: stream } };
    return func({ client, args });
  };
  return Object.fromEntries(
    Object.entries(generated).map(([name, func]) => [name, called(name, func as (given: object) => unknown)]),
  ) as unknown as MemForest;
}

function retriesOf({ retries }: MemForestOptions): CallOptions {
  return retries === undefined ? {} : { retries };
}

export const MemForest = made as unknown as new (options: MemForestOptions) => MemForest;
