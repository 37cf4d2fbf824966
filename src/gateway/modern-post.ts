import type { Exchange } from "../exchange.ts";
import { memberString } from "../protocol/json/read.ts";
import { checkModernPost } from "../protocol/modern.ts";
import type { ModernPost, ModernVerdict } from "../protocol/modern.ts";
import type { Revision } from "../protocol/revisions.ts";
import type { Route } from "./route.ts";
import type { ToolHeaders } from "./tool-headers.ts";

/** Whether a method is served is the upstream's to say: it may have extensions that we do not know. */
const isServed = (): boolean => true;

/**
 * Judges a modern POST at a route. Where the upstream sees no headers, those that repeat arguments of a tool are
 * compared here; before one is refused, the tool list is read anew once, because it may have changed.
 */
export function judgeModernPost(
  post: ModernPost,
  route: Route,
  exchangeFor: (revision: Revision) => Exchange,
): ModernVerdict | Promise<ModernVerdict> {
  const verdict = checkModernPost(post, { supported: route.supported, isServed });
  const { toolHeaders } = route;
  if (!verdict.ok || toolHeaders === undefined || post.message.method !== "tools/call") return verdict;
  const tool = memberString(post.message, "params.name");
  if (tool === undefined) return verdict;
  return judgeToolHeaders(post, tool, route, exchangeFor(verdict.revision), toolHeaders);
}

async function judgeToolHeaders(
  post: ModernPost,
  tool: string,
  route: Route,
  exchange: Exchange,
  tools: ToolHeaders,
): Promise<ModernVerdict> {
  const judge = (): ModernVerdict =>
    checkModernPost(post, {
      supported: route.supported,
      isServed,
      headerParameters: (name) => tools.known(exchange, name),
    });
  if (tools.known(exchange, tool) !== undefined) {
    const verdict = judge();
    if (verdict.ok) return verdict;
  }
  await tools.refresh(exchange);
  return judge();
}
