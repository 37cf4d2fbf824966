// node examples/clients/typescript/main.ts http://localhost:5110/mcp TrialSite_List '{"pageSize":10}' [token]
import { FetchClient } from "./fetch-client.ts";

const [baseUrl, tool, args = "{}", token] = process.argv.slice(2);
if (baseUrl === undefined || tool === undefined) {
  console.error("usage: main.ts <url of the transport> <tool> [<arguments as JSON>] [<token>]");
  process.exit(2);
}
const client = new FetchClient(baseUrl, token === undefined ? {} : { token });
try {
  const result = await client.callTool(tool, JSON.parse(args) as Record<string, unknown>);
  console.log(JSON.stringify(result));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  client.close();
}
