// A stand-in for PingAuthorize to play with: node examples/pingauthorize/mock-server.ts [PORT]
// With MOCK_KEY_FILE and MOCK_CERT_FILE it serves https.
import { readFileSync } from "node:fs";

import { startMockPingAuthorize } from "../../src/policy/testing/mock-ping-authorize.ts";
import { aboutRequests, aboutResponses } from "./policies.ts";

const { MOCK_KEY_FILE, MOCK_CERT_FILE, PAZ_SECRET = "example-secret" } = process.env;
const mock = await startMockPingAuthorize({
  port: Number(process.argv[2] ?? 8090),
  secret: { header: "CLIENT-TOKEN", value: PAZ_SECRET },
  ...(MOCK_KEY_FILE === undefined || MOCK_CERT_FILE === undefined
    ? {}
    : { tls: { key: readFileSync(MOCK_KEY_FILE, "utf8"), cert: readFileSync(MOCK_CERT_FILE, "utf8") } }),
  onRequest: shown(aboutRequests),
  onResponse: shown(aboutResponses),
});
console.log(`PingAuthorize (mock) on ${mock.url}`);

/** Prints each question before it is decided. */
function shown(policy: typeof aboutRequests): typeof aboutRequests {
  return (question) => {
    console.log(`${question.endpoint} ${question.text}`);
    return policy(question);
  };
}
