import type { Exchange, Principal } from "../../core/exchange.ts";
import type { ServedRevisions } from "../../protocol/http/era.ts";
import type { HeaderParameter } from "../../protocol/http/header-parameters.ts";
import { checkModernPost, type ModernCheckResult, type ModernPost } from "../../protocol/http/modern-post.ts";
import { memberString } from "../../protocol/json/read.ts";
import type { Revision } from "../../protocol/revisions.ts";
import type { ToolHeaders } from "../route/parameter-headers.ts";

/** Only the upstream knows which methods it serves: it may have extensions unknown to us. */
const isServed = (): boolean => true;

/**
 * Checks a modern message at a route. Where the upstream sees no headers (`tools` is given), those that repeat tool
 * arguments are compared here. Before one is refused, the tool list is read again once, because it may have changed.
 */
export function checkModernMessage(
  post: ModernPost,
  { serving, principal }: { readonly serving: ServedRevisions; readonly principal: Principal },
  tools: ToolHeaders | undefined,
  exchangeFor: (revision: Revision) => Exchange,
): ModernCheckResult | Promise<ModernCheckResult> {
  const { supported } = serving;
  const plain = { supported, isServed };
  if (tools === undefined || post.message.method !== "tools/call") return checkModernPost(post, plain);
  const headerParameters = (tool: string): readonly HeaderParameter[] | undefined => tools.known(principal, tool);
  const check = (): ModernCheckResult => checkModernPost(post, { ...plain, headerParameters });
  // Where the list cannot be read, the call itself will show why.
  const refreshed = (exchange: Exchange) => tools.refresh(exchange).then(check, check);
  const first = check();
  if (first.ok) {
    const tool = memberString(post.message, "params.name");
    if (tool === undefined || tools.known(principal, tool) !== undefined) return first;
    const exchange = exchangeFor(first.revision);
    return tools.isFresh(exchange) ? first : refreshed(exchange);
  }
  const withoutTools = checkModernPost(post, plain);
  return withoutTools.ok ? refreshed(exchangeFor(withoutTools.revision)) : withoutTools;
}
