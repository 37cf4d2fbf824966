/** For tests of your own: decision points and recorded servers to play against, from `headgate/testing`. */
export { startMockAuthZen } from "./policy/authzen/mock.ts";
export type { MockAuthZen } from "./policy/authzen/mock.ts";
export {
  allowRequest,
  allowResponse,
  allowWith,
  changeResponse,
  denyRequest,
  startMockPingAuthorize,
} from "./policy/sideband/mock.ts";
export { mockFrom } from "./recorder/testing.ts";
export type { MockCall, MockFromOptions, MockServer } from "./recorder/testing.ts";
