/** For tests of your own: decision points and recorded servers to play against, from `headgate/testing`. */
export { startMockAuthZen } from "./policy/testing/mock-authzen.ts";
export type { MockAuthZen } from "./policy/testing/mock-authzen.ts";
export {
  allowRequest,
  allowResponse,
  allowWith,
  changeResponse,
  denyRequest,
  startMockPingAuthorize,
} from "./policy/testing/mock-ping-authorize.ts";
export { mockFrom } from "./recorder/replay/fixture-server.ts";
export type { MockCall, MockFromOptions, MockServer } from "./recorder/replay/fixture-server.ts";
