// A stand-in for a decision point to play with: node examples/authzen/mock-server.ts [PORT]
import { startMockAuthZen } from "../../src/policy/testing/mock-authzen.ts";
import { policy } from "./policies.ts";

const mock = await startMockAuthZen({
  port: Number(process.argv[2] ?? 8090),
  token: process.env["PDP_TOKEN"] ?? "example-token",
  policy: (evaluation) => {
    const decision = policy(evaluation);
    console.log(JSON.stringify({ evaluation, decision }));
    return decision;
  },
});
console.log(`AuthZEN decision point (mock) on ${mock.url}`);
