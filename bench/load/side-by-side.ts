// Two gateways that share nothing but the process group, as workers do. It gets their commands as JSON, and says where both listen:
// Linux divides the processors among groups first (`sched(7)`, autogroup), so gateways in groups of their own would get twice as much.
import { spawn } from "node:child_process";

const commands = JSON.parse(process.argv[2] ?? "[]") as readonly (readonly string[])[];
const urls = commands.map(async ([file = "", ...args]) => {
  // What a gateway says when it listens must not reach the one who started this process, who would take it for the whole.
  const { stderr } = spawn(file, args, { stdio: ["ignore", "ignore", "pipe"] });
  const { promise, resolve } = Promise.withResolvers<string>();
  let text = "";
  stderr.setEncoding("utf8").on("data", (chunk: string) => {
    text = (text + chunk).slice(-10_000);
    const [, url] = /listening on (http\S+)/u.exec(text) ?? [];
    if (url !== undefined) resolve(url);
  });
  return promise;
});
process.stdout.write(`listening on ${(await Promise.all(urls)).join(",")}\n`);
