// Calls gpuctl-server with the types that an outside generator made from docs/openapi-3.0.json alone, and which its test puts beside this file as
// api.ts. The compiler holds what is read of each answer to the document; the program fails where an answer is an error.
import createClient from "openapi-fetch";
import { readFileSync } from "node:fs";
import type { components, paths } from "./api.js";

const [url, namespace, job] = process.argv.slice(2) as [string, string, string];
const yamlContent = readFileSync(job, "utf8");
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${process.env["TOKEN"]}` } });
const inNamespace = { query: { namespace } };
const ofJob = { path: { jobId: "generated" }, query: { namespace } };
let called = 0;

// want returns the document of an answer, and ends the program where there is none.
async function want<T>(what: string, call: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  const { data, error, response } = await call;
  if (data === undefined) {
    throw new Error(`${what}: ${response.status} ${JSON.stringify(error)}`);
  }
  called++;
  return data;
}

function same(what: string, got: unknown, wanted: unknown): void {
  if (got !== wanted) {
    throw new Error(`${what}: ${JSON.stringify(got)}, want ${JSON.stringify(wanted)}`);
  }
}

// firstChanged returns the job of the first event of a watch. The compiler holds that only events of a job have one.
async function firstChanged(stream: ReadableStream<Uint8Array>): Promise<string> {
  let text = "";
  for await (const part of stream) {
    text += new TextDecoder().decode(part);
    const found = /event: (\w+)\ndata: (.*)\n/.exec(text);
    if (found !== null) {
      const event = { event: found[1], data: JSON.parse(found[2] as string) } as components["schemas"]["JobStreamEvent"];
      return event.event === "modified" ? event.data.jobId : event.event;
    }
  }
  return "none";
}

await want("version", client.GET("/version"));
await want("health", client.GET("/health"));
await want("readiness", client.GET("/readyz"));
await want("own rights", client.GET("/api/v1/auth/check"));
await want("namespaces", client.GET("/api/v1/namespaces"));
await want("presets", client.GET("/api/v1/presets"));
await want("validation", client.POST("/api/v1/validate", { body: { yamlContent } }));
await want("objects", client.POST("/api/v1/render", { params: inNamespace, body: { yamlContent } }));
const batch = await want("batch", client.POST("/api/v1/jobs/batch",
  { params: inNamespace, body: { yamlContents: [yamlContent, "kind: nonsense"], dryRun: true } }));
same("the status of a valid document", batch.success[0]?.httpStatus, 200);
same("the status of an invalid one", batch.failed[0]?.httpStatus, 422);
const usage = await client.GET("/api/v1/usage", {});
same("the usage of a server without a ledger", usage.error?.code, "NotConfigured");
await want("differences", client.POST("/api/v1/diff", { params: inNamespace, body: { yamlContent } }));

const created = await want("creation", client.POST("/api/v1/jobs", { body: { yamlContent } }));
same("the created job", created.jobId, "generated");
const list = await want("jobs", client.GET("/api/v1/jobs", { params: { query: { namespace, name: "generated" } } }));
if (Array.isArray(list)) {
  throw new Error("a list is answered with events");
}
same("jobs in the list", list.total, 1);
const changes = await client.GET("/api/v1/jobs", { params: { query: { namespace, watch: true, since: list.resourceVersion } }, parseAs: "stream" });
await want("job", client.GET("/api/v1/jobs/{jobId}", { params: ofJob }));
await want("its YAML", client.GET("/api/v1/jobs/{jobId}/spec", { params: ofJob }));
await want("its pods", client.GET("/api/v1/jobs/{jobId}/pods", { params: ofJob }));
await want("its events", client.GET("/api/v1/jobs/{jobId}/events", { params: ofJob }));
await want("why it waits", client.GET("/api/v1/jobs/{jobId}/explain", { params: ofJob }));
await want("a pause", client.POST("/api/v1/jobs/{jobId}/pause", { params: ofJob }));
same("the job that has changed since", await firstChanged(changes.data as ReadableStream<Uint8Array>), "generated"); // before another one undoes it
await want("a resumption", client.POST("/api/v1/jobs/{jobId}/resume", { params: ofJob }));
await want("the queue", client.GET("/api/v1/queue"));
await want("pools", client.GET("/api/v1/pools"));
await want("nodes", client.GET("/api/v1/nodes"));
await want("quotas", client.GET("/api/v1/quotas"));
await want("deletion", client.DELETE("/api/v1/jobs/{jobId}", { params: ofJob }));

const missing = await client.DELETE("/api/v1/jobs/{jobId}", { params: { path: { jobId: "none" }, query: { namespace } } });
same("the code of a job that does not exist", missing.error?.code, "NotFound");
console.log(`${called + 1} routes called`);
