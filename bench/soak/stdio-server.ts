// The echo server over standard streams. What comes in one piece is answered in one, in another order.
import { echoAnswer } from "./echo.ts";

let rest = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (chunk: string) => {
  const lines = (rest + chunk).split("\n");
  rest = lines.pop() ?? "";
  const answers = lines.flatMap((line) => echoAnswer(JSON.parse(line)) ?? []);
  if (answers.length > 0) process.stdout.write(`${answers.toReversed().join("\n")}\n`);
});
