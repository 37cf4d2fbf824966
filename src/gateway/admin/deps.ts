import type { Config } from "../../config/config.ts";
import type { HeldMessages } from "../../core/interceptors/held-messages.ts";
import type { Clock, SetTimer } from "../../lib/clock.ts";
import type { MaybePromise } from "../../lib/is-promise.ts";
import type { LogFields, Logger } from "../../telemetry/log.ts";
import type { GatewayContext } from "../context.ts";
import type { Holds } from "../wiring/holds.ts";
import type { Jobs } from "./jobs.ts";
import type { PlayCall } from "./playground.ts";
import type { QueryThread } from "./queries/query-thread.ts";
import type { ReplayJob } from "./replay-job.ts";
import type { Caller, SignIn } from "./sign-in/sign-in.ts";

/** Notes what a person did, in the log and in the audit stream. */
export type NoteAction = (caller: Caller, action: string, fields?: LogFields) => void;

/** What the endpoints of the admin API need from the gateway. */
export interface AdminDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  /** Counts, logs and records a request that was refused before an endpoint took it. */
  readonly noteRefusal: GatewayContext["noteRefusal"];
  readonly version: string;
  /** The command that starts Headgate for this user. */
  readonly ownCommand: string;
  /** The configuration as of now. */
  readonly config: () => Config;
  /** Where clients connect; undefined until the gateway listens. */
  readonly clientUrl: () => string | undefined;
  readonly signIn: SignIn;
  /** Whether people can sign in by OpenID Connect. */
  readonly hasOidc: boolean;
  /** Where browsers see this API, if it is behind a proxy. */
  readonly publicUrl: string | undefined;
  readonly note: NoteAction;
  /** The recordings of this gateway. */
  readonly queries: QueryThread;
  /** Where the gateway itself reaches its clients' listener; undefined where it cannot, as on a Unix socket. */
  readonly localUrl: () => string | undefined;
  readonly calls: Jobs<PlayCall>;
  readonly replays: Jobs<ReplayJob>;
  readonly heldMessages: HeldMessages;
  readonly holds: Holds;
  /** The state of each route's upstream, by route name. */
  readonly health: () => MaybePromise<Readonly<Record<string, string>>>;
}
