import { type ListItem, UnorderedList } from "../lib/bounded-map.ts";
import { spanOf } from "../protocol/json/outline.ts";
import type { RequestMessage } from "../protocol/message.ts";
import { metadataOf } from "../protocol/metadata.ts";
import type { RunningRequest } from "./router.ts";

/** A member with a number of running requests. */
export interface BusyMember {
  running: number;
  /** Called when no request runs any more, once the member has been replaced. */
  onIdle: (() => void) | undefined;
}

/**
 * The requests of a session that run at its members. Searched one by one, because few run at once and only cancellations
 * and progress search. Needed by bench federation: "call of a".
 */
export class RunningCalls<Member extends BusyMember> {
  readonly #calls = new UnorderedList<RunningCall<Member>>();

  begin(message: RequestMessage, member: Member): RunningRequest {
    const hasToken = spanOf(message.outline, "params._meta.progressToken") !== undefined;
    const token = hasToken ? metadataOf(message).progressToken?.key : undefined;
    return new RunningCall(this.#calls, member, message.id.key, token);
  }

  /** The member that a request runs at, by the key of its id. */
  memberOf(request: string): Member | undefined {
    return this.#calls.items.find(({ id }) => id === request)?.member;
  }

  /** Whether a progress token belongs to a request at another member: tokens are easy to guess. */
  isTokenOfAnother(token: string, member: Member): boolean {
    const calls = this.#calls.items.filter((call) => call.token === token);
    return calls.length > 0 && calls.every((call) => call.member !== member);
  }
}

class RunningCall<Member extends BusyMember> implements RunningRequest, ListItem {
  listIndex = -1;
  readonly member: Member;
  readonly id: string;
  readonly token: string | undefined;
  readonly #calls: UnorderedList<RunningCall<Member>>;

  constructor(calls: UnorderedList<RunningCall<Member>>, member: Member, id: string, token: string | undefined) {
    this.#calls = calls;
    this.member = member;
    this.id = id;
    this.token = token;
    member.running++;
    calls.add(this);
  }

  end(): void {
    if (this.listIndex < 0) return;
    this.#calls.delete(this);
    if (--this.member.running === 0) this.member.onIdle?.();
  }
}
