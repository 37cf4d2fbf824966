// What the mock decides: the kind of policy that one writes for PingAuthorize, in a few lines of TypeScript.
import {
  allowRequest,
  allowResponse,
  allowWith,
  changeResponse,
  denyRequest,
  type MockPingRequest,
  type MockPolicy,
} from "../../src/policy/testing/mock-ping-authorize.ts";

/** Nobody closes accounts, and nobody moves more than 100 at once. */
export const aboutRequests: MockPolicy = (question) => {
  const tool = mcpOf(question)["mcp_tool_name"];
  if (tool === "close_account") {
    return denyRequest(403, '{"message":"Accounts are closed at the counter."}')(question);
  }
  if (tool !== "transfer") return allowRequest(question);
  return allowWith(({ payload }) => ({ body: withLimit(String(payload["body"])) }))(question);
};

/** Agents neither see the tool that they may not use, nor anybody's PIN. */
export const aboutResponses: MockPolicy = (question) => {
  switch (mcpOf(question)["mcp_method"]) {
    case "tools/list":
      return changeResponse(({ payload }) => ({
        body: withoutTool(String(payload["body"]), "close_account"),
      }))(question);
    case "tools/call":
      return changeResponse(({ payload }) => ({
        body: String(payload["body"]).replace(/PIN \d+/u, "PIN (hidden)"),
      }))(question);
    default:
      return allowResponse(question);
  }
};

function mcpOf({ payload }: MockPingRequest): Readonly<Record<string, unknown>> {
  return Object(payload["mcp"]) as Readonly<Record<string, unknown>>;
}

function withLimit(body: string): string {
  const message = JSON.parse(body) as { params: { arguments: { amount: number } } };
  const { arguments: args } = message.params;
  if (args.amount <= 100) return body;
  return JSON.stringify({ ...message, params: { ...message.params, arguments: { ...args, amount: 100 } } });
}

function withoutTool(body: string, hidden: string): string {
  const message = JSON.parse(body) as { result?: { tools: { name: string }[] } };
  if (message.result === undefined) return body;
  const tools = message.result.tools.filter(({ name }) => name !== hidden);
  return JSON.stringify({ ...message, result: { ...message.result, tools } });
}
