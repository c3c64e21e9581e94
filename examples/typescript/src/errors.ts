import type { Problem } from "../client/types.gen.ts";

/** What the service refused or could not do, or that it can't be reached. Decide by `code`: sentences may change. */
export class MemForestError extends Error {
  override readonly name = "MemForestError";
  /** The stable code of the problem, such as `session_conflict`; `server_unavailable` or `timeout` without an answer. */
  readonly code: string;
  /** The HTTP status; undefined without an answer. */
  readonly status: number | undefined;
  /** Seconds after which to try it again, if the service said so. */
  readonly retryAfter: number | undefined;
  /** The whole problem, with the `faults` of a request of the wrong form. */
  readonly problem: Problem | undefined;

  constructor(
    message: string,
    known: { code: string; status?: number; retryAfter?: number; problem?: Problem; cause?: unknown },
  ) {
    super(message, { cause: known.cause });
    this.code = known.code;
    this.status = known.status;
    this.retryAfter = known.retryAfter;
    this.problem = known.problem;
  }
}

/** The error in an answer; a proxy's own answer is no problem of the service. */
export function errorOf(response: Response, body: unknown): MemForestError {
  const status = response.status;
  const problem = typeof body === "object" && body !== null && "code" in body ? (body as Problem) : undefined;
  const header = Number(response.headers.get("Retry-After") ?? Number.NaN);
  const retryAfter = problem?.retry_after ?? (Number.isFinite(header) ? header : undefined);
  return new MemForestError(problem?.detail ?? `The server answered ${status}.`, {
    code: problem?.code ?? "http_error",
    status,
    ...(retryAfter === undefined ? {} : { retryAfter }),
    ...(problem === undefined ? {} : { problem }),
  });
}
