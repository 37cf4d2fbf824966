/** For your own tests: mock decision points and recorded servers, from `headgate/testing`. */
import "./lib/node-version.ts";

export type { MockTlsOptions } from "./policy/testing/mock-server.ts";
export { startMockAuthZen } from "./policy/testing/mock-authzen.ts";
export type {
  MockAuthZen,
  MockAuthZenOptions,
  MockAuthZenPolicy,
  MockDecision,
  MockEntity,
  MockEvaluation,
  MockFault,
  MockRequest,
} from "./policy/testing/mock-authzen.ts";
export {
  allowRequest,
  allowResponse,
  allowWith,
  changeResponse,
  denyRequest,
  startMockPingAuthorize,
} from "./policy/testing/mock-ping-authorize.ts";
export type {
  MockPingAuthorize,
  MockPingAuthorizeOptions,
  MockPingRequest,
  MockPolicy,
  MockReply,
} from "./policy/testing/mock-ping-authorize.ts";
export { mockFrom } from "./recorder/replay/fixture-server.ts";
export type { MockCall, MockFromOptions, MockServer } from "./recorder/replay/fixture-server.ts";
