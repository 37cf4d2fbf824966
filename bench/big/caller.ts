// A process that makes big calls one after the other on each of its connections, and counts the bytes.
import { Agent, request } from "node:http";
import { postHeaders } from "../load/calls.ts";
import { openSession } from "../load/sessions.ts";
import { serveJobs } from "../worker.ts";
import { bigShapes } from "./messages.ts";

/** What the process is told to do. */
export interface BigJob {
  readonly url: string;
  readonly shape: keyof typeof bigShapes;
  readonly connections: number;
  readonly seconds: number;
}

/** What came of it. */
export interface BigResult {
  readonly calls: number;
  readonly megabytes: number;
  readonly seconds: number;
}

const sessions = new Map<string, Promise<string>>();

serveJobs(work);

async function work({ url, shape, connections, seconds }: BigJob): Promise<BigResult> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const known = sessions.get(url) ?? openSession({ url, era: "legacy" }, new Agent());
  sessions.set(url, known);
  const session = await known;
  const { body: text, isRequest } = bigShapes[shape];
  const body = Buffer.from(text);
  const start = performance.now();
  const deadline = start + seconds * 1000;
  let calls = 0;
  let bytes = 0;
  const caller = async (): Promise<void> => {
    do {
      const answered = await call(url, body, session, agent);
      calls += 1;
      bytes += isRequest ? body.length : answered;
    } while (performance.now() < deadline);
  };
  await Promise.all(Array.from({ length: connections }, caller));
  const elapsed = (performance.now() - start) / 1000;
  agent.destroy();
  return { calls, megabytes: bytes / (1 << 20), seconds: elapsed };
}

/** Makes one call and returns the length of its answer, whose last bytes must be those of a result. */
function call(url: string, body: Buffer, session: string, agent: Agent): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { ...postHeaders("legacy", session), "content-length": String(body.length) };
    const outgoing = request(url, { method: "POST", headers, agent }, (answer) => {
      let length = 0;
      let tail = "";
      answer.on("data", (chunk: Buffer) => {
        length += chunk.length;
        tail = chunk.toString("latin1", Math.max(0, chunk.length - 200));
      });
      answer.on("error", reject);
      answer.on("end", () => {
        if (answer.statusCode === 200 && !tail.includes('"error"')) resolve(length);
        else reject(new Error(`not an answer: ${answer.statusCode} ${tail}`));
      });
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}
