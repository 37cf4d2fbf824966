/** For tests of your own: decision points to play against, `import { startMockAuthZen } from "headgate/testing"`. */
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
