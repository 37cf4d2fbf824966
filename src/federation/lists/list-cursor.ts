import type { Seal } from "../../lib/keys/sealing.ts";
import type { Exchange } from "../../core/exchange.ts";
import type { ListMethod } from "../names/list-facts.ts";

/** Where a list continues. */
export interface ListPlace {
  /** The member's place in the configured order when the cursor was written. */
  readonly index: number;
  readonly member: string;
  /** The member's own cursor; undefined for its first page. */
  readonly cursor: string | undefined;
  /** Entries of that page that were listed before. */
  readonly offset: number;
  /** Entries of the member that were listed before, to find the place again if the member refuses its cursor. */
  readonly delivered: number;
  /** Pages of the member that were read before. */
  readonly pages: number;
}

/** Stateless cursors: they contain the whole position, sealed so that only this federation can read it. */
export interface ListCursors {
  write(exchange: Exchange, method: ListMethod, place: ListPlace): string;
  /** The place of a cursor; undefined if it is not ours, of another list or of another caller. */
  read(exchange: Exchange, method: ListMethod, cursor: string): ListPlace | undefined;
}

export function createListCursors(seal: Seal): ListCursors {
  const contextOf = ({ route, principal }: Exchange, method: ListMethod): string =>
    JSON.stringify([route, principal.id, method]);
  return {
    write: (exchange, method, { index, member, cursor, offset, delivered, pages }) =>
      seal.seal(
        Buffer.from(JSON.stringify([index, member, cursor ?? null, offset, delivered, pages])),
        contextOf(exchange, method),
      ),
    read: (exchange, method, text) => {
      const content = seal.open(text, contextOf(exchange, method));
      if (content === undefined) return undefined;
      // The seal is intact, so these six values are ours.
      const [index, member, cursor, offset, delivered, pages] = JSON.parse(content.toString()) as [
        number,
        string,
        string | null,
        number,
        number,
        number,
      ];
      return { index, member, cursor: cursor ?? undefined, offset, delivered, pages };
    },
  };
}
