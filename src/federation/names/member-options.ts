import type { ToolOverride } from "./tool-overrides.ts";
import type { ViewOptions } from "./view.ts";

/** A server of a federation, as configured. */
export interface MemberOptions {
  readonly name: string;
  /** What its names begin with; empty for bare names. */
  readonly prefix: string;
  /** Display name. */
  readonly title: string;
  /** Patterns of the tools that are offered; undefined for all. */
  readonly allowedTools: readonly string[] | undefined;
  /** Whether the URIs of its resources get its prefix. */
  readonly uris: "keep" | "prefix";
  /** Whether a list without it is an error. */
  readonly required: boolean;
}

/** How several servers become one. */
export interface FederationOptions {
  /** The name of the route. */
  readonly route: string;
  /** In the order of lists. */
  readonly members: readonly MemberOptions[];
  readonly separator: string;
  readonly nameLength: number;
  readonly listing: ListingOptions;
  /** `merged`, those of one server, or your own text. */
  readonly instructions: string | { readonly from: string };
  /** Tools that are offered otherwise than their servers say, by the names that they would have. */
  readonly overrides?: ReadonlyMap<string, ToolOverride> | undefined;
  /** Parts that callers get under a condition; the first match wins. */
  readonly views?: readonly ViewOptions[];
  /** The part that every caller gets. */
  readonly view?: ViewOptions | undefined;
  /** Whether a URI has only this spelling; a reference may be a URI template. */
  readonly isCanonical?: (uri: string, isReference: boolean) => boolean;
  /** Whether servers get credentials of the caller, so that no other caller may be shown what they list. */
  readonly hasCallerCredentials?: boolean;
  readonly serverInfo?: Readonly<Record<string, unknown>> | undefined;
}

/** How lists are put together; times in milliseconds. */
export interface ListingOptions {
  readonly wait: number;
  readonly stale: number;
  readonly page: number;
  readonly partial: "allow" | "refuse";
}
