import { GatewayError } from "../../errors.ts";

/** The upstream answered that it does not know the session. The link shakes hands anew; nobody else sees this. */
export class SessionLostError extends GatewayError {
  readonly session: string;
  constructor(session: string) {
    super("upstream_unreachable", "the upstream has forgotten the session");
    this.session = session;
  }
}
