// A second pass-through, written apart from the first to check it: node:http both ways, one write for each message.
import { Agent, createServer, request as sendRequest } from "node:http";
import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { announce } from "./serve.ts";

const target = new URL(process.argv[2] ?? "");
const agent = new Agent({ keepAlive: true });
const perConnection: ReadonlySet<string> = new Set(["connection", "host", "keep-alive", "transfer-encoding"]);

const server = createServer((incoming, response) => {
  readText(incoming, (question) => {
    JSON.parse(question);
    const { hostname, port, pathname: path } = target;
    const options = { agent, hostname, port, path, method: "POST", headers: headersOf(incoming) };
    const outgoing = sendRequest(options, (answered) => {
      readText(answered, (answer) => {
        if (answer !== "") JSON.parse(answer);
        response.writeHead(answered.statusCode ?? 502, headersOf(answered));
        response.end(answer, "latin1");
      });
    });
    outgoing.on("error", () => response.writeHead(502).end());
    outgoing.end(question, "latin1");
  });
});
announce(server, "/mcp");

function headersOf({ headers }: IncomingMessage): OutgoingHttpHeaders {
  const kept: OutgoingHttpHeaders = {};
  for (const name in headers) if (!perConnection.has(name)) kept[name] = headers[name];
  return kept;
}

function readText(message: IncomingMessage, done: (text: string) => void): void {
  let text = "";
  message.setEncoding("latin1");
  message.on("data", (chunk: string) => {
    text += chunk;
  });
  message.on("end", () => {
    done(text);
  });
}
