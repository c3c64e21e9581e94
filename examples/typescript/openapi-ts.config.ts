// How the client is generated: read by generate.py's run of openapi-ts.
import { defineConfig } from "@hey-api/openapi-ts";

const VERBS = ["get", "post", "put", "patch", "delete"];

/** Every operation may end in the same problems: one type for all of them instead of thirteen for each. */
function foldErrors(document: any): void {
  for (const path of Object.values<any>(document.paths)) {
    for (const verb of VERBS.filter((each) => each in path)) {
      const responses = path[verb].responses;
      const errors = Object.keys(responses).filter((status) => Number(status) >= 400);
      if (errors.length > 0) responses.default = { ...responses[errors[0]], description: "An error: look at its code." };
      for (const status of errors) delete responses[status];
    }
  }
}

/** Titles of fields repeat their names. */
function dropTitles(part: any): void {
  for (const [name, child] of Object.entries<any>(part ?? {})) {
    if (name === "title" && typeof child === "string") delete part.title;
    else if (typeof child === "object") dropTitles(child);
  }
}

export default defineConfig({
  input: process.env.OPENAPI_DOCUMENT!,
  output: { path: "client", clean: true, module: { extension: ".ts" } },
  parser: {
    patch: {
      input: (document: any) => {
        foldErrors(document);
        for (const schema of Object.values<any>(document.components.schemas)) dropTitles(schema);
        for (const path of Object.values<any>(document.paths)) dropTitles(path);
      },
    },
  },
  plugins: ["@hey-api/client-fetch", "@hey-api/typescript", "@hey-api/sdk"],
});
