import type { ExchangeRecord } from "../../../src/recorder/contract.ts";
import { href } from "../state/route.ts";
import { formatMs } from "../text.ts";
import { StatusBadge } from "./badges.tsx";
import { ExchangeName } from "./exchange-row.tsx";

/** A few exchanges with their outcome and duration, each a link. */
export function ExchangeTable({ exchanges }: { readonly exchanges: readonly ExchangeRecord[] }) {
  return (
    <table>
      <tbody>
        {exchanges.map((one) => (
          <tr key={one.id}>
            <td>
              <a href={href("exchange", one.id)}>
                <ExchangeName exchange={one} />
              </a>
            </td>
            <td>
              <StatusBadge state={one.state} />
            </td>
            <td class="right">{formatMs(one.durationMs)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
