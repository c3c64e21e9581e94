/** A middleware for the Vercel AI SDK: each call of a model is given the memory, and each exchange is stored. */
import { randomUUID } from "node:crypto";
import type { LanguageModelMiddleware } from "ai";
import { PREAMBLE, contextText } from "./context.ts";
import type { MemForest, Section } from "./index.ts";

export interface MemoryOptions {
  memory: MemForest;
  /** Whose memory. */
  owner: string;
  /** The conversation. */
  session: string;
  /** Where it takes place; evidence and window are then of this channel alone. */
  channel?: string;
  /** Estimated tokens of the context; the server's setting unless given. */
  maxTokens?: number;
  /** Also give the last turns of the stored session: for apps that send the newest message alone. */
  window?: boolean;
  /** False only reads. */
  store?: boolean;
  /** What to do when the memory is unavailable; the model is called all the same. Else a warning on the console. */
  onError?: (error: unknown) => void;
}

interface Message {
  role: string;
  content: string | readonly { type: string; text?: string; mediaType?: string }[];
}

const BEFORE: readonly Section[] = ["profile", "week", "today", "evidence"];

/**
 * For `wrapLanguageModel({ model, middleware: memoryMiddleware({ memory, owner, session }) })`, with generateText,
 * streamText and agents. A memory that is unavailable never fails a call.
 */
export function memoryMiddleware(options: MemoryOptions): LanguageModelMiddleware {
  const { memory, owner, session, channel } = options;
  const failed = options.onError ?? ((error: unknown) => console.warn(String(error)));
  const place = { owner, session_id: session, ...(channel === undefined ? {} : { channel }) };
  let recalled: { question: string; text: string } | undefined;

  async function contextFor(prompt: readonly Message[]): Promise<string> {
    const question = said(prompt.findLast((message) => message.role === "user"));
    const goesOn = prompt.at(-1)?.role !== "user"; // a further step, behind the results of tools
    if (goesOn && recalled?.question === question) return recalled.text;
    const found = await memory.context({
      owner,
      session,
      ...(question ? { question } : {}),
      ...(channel === undefined ? {} : { channel }),
      ...(options.maxTokens === undefined ? {} : { max_tokens: options.maxTokens }),
    });
    for (const sentence of found.degraded ?? []) failed(sentence);
    const text = contextText(found, options.window ? undefined : BEFORE);
    recalled = { question, text };
    return text;
  }

  async function store(prompt: readonly Message[], reply: string): Promise<void> {
    if (options.store === false) return;
    const last = prompt.at(-1);
    const turns = [
      { role: "user", content: last?.role === "user" ? said(last) : "" },
      { role: "assistant", content: reply },
    ] as const;
    try {
      for (const turn of turns.filter(({ content }) => content.trim())) {
        // With an id it may be sent again after an outage.
        await memory.append({ ...place, turn: { ...turn, id: randomUUID() } });
      }
    } catch (error) {
      failed(error);
    }
  }

  return {
    specificationVersion: "v3",
    async transformParams({ params }) {
      let text = "";
      try {
        text = await contextFor(params.prompt);
      } catch (error) {
        failed(error);
      }
      if (!text) return params;
      const first = params.prompt.findIndex((message) => message.role !== "system");
      const prompt = [...params.prompt];
      prompt.splice(first < 0 ? prompt.length : first, 0, { role: "system", content: `${PREAMBLE}\n\n${text}` });
      return { ...params, prompt };
    },
    async wrapGenerate({ doGenerate, params }) {
      const result = await doGenerate();
      const texts = result.content.map((part) => (part.type === "text" ? part.text : ""));
      await store(params.prompt, texts.join(""));
      return result;
    },
    async wrapStream({ doStream, params }) {
      const { stream, ...rest } = await doStream();
      let reply = "";
      let whole = false;
      const watched = new TransformStream<Part<typeof stream>, Part<typeof stream>>({
        transform(part, controller) {
          if (part.type === "text-delta") reply += part.delta;
          if (part.type === "finish") whole = true;
          controller.enqueue(part);
        },
        // A reply that broke off is not stored.
        flush: () => (whole ? store(params.prompt, reply) : undefined),
      });
      return { stream: stream.pipeThrough(watched), ...rest };
    },
  };
}

type Part<Stream> = Stream extends ReadableStream<infer Value> ? Value : never;

/** The words of a message, with a mark for each file. */
function said(message: Message | undefined): string {
  if (message === undefined) return "";
  if (typeof message.content === "string") return message.content;
  const mark = (type: string | undefined) => (type?.startsWith("image") ? "[image]" : "[file]");
  const words = message.content.map((part) => (part.type === "file" ? mark(part.mediaType) : (part.text ?? "")));
  return words.filter(Boolean).join("\n");
}
