import type { Exchange, Principal } from "../exchange.ts";
import type { HeaderParameter } from "../protocol/header-parameters.ts";
import { memberString } from "../protocol/json/read.ts";
import { checkModernPost } from "../protocol/modern.ts";
import type { ModernCheckOptions, ModernPost, ModernCheckResult } from "../protocol/modern.ts";
import type { Revision } from "../protocol/revisions.ts";
import type { Route } from "./route.ts";
import type { ToolHeaders } from "./tool-headers.ts";

/** Whether a method is served is the upstream's to say: it may have extensions that we do not know. */
const isServed = (): boolean => true;

/**
 * Judges a modern POST at a route. Where the upstream sees no headers, those that repeat arguments of a tool are
 * compared here; before one is refused, the tool list is read anew once, because it may have changed.
 */
export function checkRoutedModernPost(
  post: ModernPost,
  route: Route,
  principal: Principal,
  exchangeFor: (revision: Revision) => Exchange,
): ModernCheckResult | Promise<ModernCheckResult> {
  const { toolHeaders: tools, supported } = route;
  if (tools === undefined || post.message.method !== "tools/call")
    return checkModernPost(post, { supported, isServed });
  const headerParameters = (name: string): readonly HeaderParameter[] | undefined =>
    tools.known(principal, name);
  const facts = { supported, isServed, headerParameters };
  const verdict = checkModernPost(post, facts);
  if (verdict.ok) {
    const tool = memberString(post.message, "params.name");
    if (tool === undefined || tools.known(principal, tool) !== undefined) return verdict;
    const exchange = exchangeFor(verdict.revision);
    return tools.isFresh(exchange) ? verdict : recheck(post, facts, tools, exchange);
  }
  // Refused for its headers alone, as far as the list is known that was read before.
  const plain = checkModernPost(post, { supported, isServed });
  return plain.ok ? recheck(post, facts, tools, exchangeFor(plain.revision)) : plain;
}

async function recheck(
  post: ModernPost,
  facts: ModernCheckOptions,
  tools: ToolHeaders,
  exchange: Exchange,
): Promise<ModernCheckResult> {
  await tools.refresh(exchange);
  return checkModernPost(post, facts);
}
