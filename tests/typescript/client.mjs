// Drives a server with the TypeScript SDK. Reads {command, args, env, calls} as JSON from stdin, or with a url in
// place of the command (SSE where that ends in /sse); prints what each call came to. The SDK checks every structured answer, errors too, against the tool's output schema
// and throws where it does not fit, so a throw is a result here and not the end.
import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const { command, args, env, url, headers, calls } = JSON.parse(readFileSync(0, "utf8"));
const client = new Client({ name: "typescript-test", version: "1.0.0" });
const Http = url?.endsWith("/sse") ? SSEClientTransport : StreamableHTTPClientTransport;
await client.connect(
  url
    ? new Http(new URL(url), { requestInit: { headers } })
    : new StdioClientTransport({ command, args, env, stderr: "inherit" }),
);
const { tools } = await client.listTools();
const outcomes = [];
for (const [name, given] of calls) {
  try {
    outcomes.push({ result: await client.callTool({ name, arguments: given }) });
  } catch (thrown) {
    outcomes.push({ thrown: String(thrown) });
  }
}
const report = { server: client.getServerVersion(), instructions: client.getInstructions(), tools, outcomes };
await client.close();
process.stdout.write(JSON.stringify(report));
