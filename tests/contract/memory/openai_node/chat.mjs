// OpenAI's own client: a question, its answer in parts, a tool call in parts, and a stream that is left.
const { default: OpenAI } = await import(process.env.OPENAI_PACKAGE);
const { MEMFOREST_URL, MEMFOREST_KEY, OWNER } = process.env;
const client = new OpenAI({
  baseURL: `${MEMFOREST_URL}/openai/v1`,
  apiKey: MEMFOREST_KEY,
  maxRetries: 0,
  defaultHeaders: { "X-MemForest-Owner": OWNER, "X-MemForest-Session": process.argv[2] },
});
const ask = (content, options = {}) => ({ model: "tiny", messages: [{ role: "user", content }], ...options });
const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: {} } } }];
const found = {};

const { data, response } = await client.chat.completions.create(ask(process.argv[3])).withResponse();
found.answer = data.choices[0].message.content;
found.used = response.headers.get("x-memforest-used");
if (process.argv[2] === "second") {
  let parts = 0;
  const stream = client.chat.completions.stream(ask("And where, in parts?", { stream_options: { include_usage: true } }));
  for await (const _ of stream) parts += 1;
  found.streamed = (await stream.finalChatCompletion()).choices[0].message.content;
  found.parts = parts;
  const called = await client.chat.completions.stream(ask("The weather?", { tools })).finalChatCompletion();
  found.call = called.choices[0].message.tool_calls[0].function;
  const left = await client.chat.completions.create(ask("Do not wait.", { stream: true }));
  for await (const _ of left) break;
  found.error = await client.chat.completions.create({ ...ask("Hello."), model: "huge" }).catch((error) => error.code);
}
console.log(JSON.stringify(found));
