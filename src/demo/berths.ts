import { completable, ResourceNotFoundError, ResourceTemplate } from "@modelcontextprotocol/server";
import type { McpServer } from "@modelcontextprotocol/server";
import * as z from "zod";

/** A place for one ship in the demo harbor. */
export interface Berth {
  readonly id: string;
  readonly quay: string;
  readonly lengthMeters: number;
  readonly depthMeters: number;
  readonly power: boolean;
}

/** Every berth of the demo harbor. It never changes: nothing that a caller does here outlives the call. */
export const berths: readonly Berth[] = [
  { id: "A1", quay: "North quay", lengthMeters: 120, depthMeters: 9.5, power: true },
  { id: "A2", quay: "North quay", lengthMeters: 90, depthMeters: 8, power: true },
  { id: "B1", quay: "Fish market", lengthMeters: 35, depthMeters: 4.5, power: false },
  { id: "B2", quay: "Fish market", lengthMeters: 25, depthMeters: 3.5, power: false },
  { id: "C1", quay: "Old pier", lengthMeters: 15, depthMeters: 2.5, power: true },
];

/** The name of a berth of the demo harbor. */
export const berthId = z.enum(berths.map(({ id }) => id));

const uri = "harbor://berths";
const mimeType = "application/json";

/** Adds the list of berths as a resource, each berth through a template, and a prompt about one of them. */
export function registerBerths(server: McpServer): void {
  server.registerResource(
    "berths",
    uri,
    { title: "Berths", description: "Every berth of the harbor with its size, as JSON", mimeType },
    ({ href }) => ({ contents: [{ uri: href, mimeType, text: JSON.stringify(berths, undefined, 2) }] }),
  );
  server.registerResource(
    "berth",
    new ResourceTemplate(`${uri}/{id}`, {
      list: () => ({
        resources: berths.map(({ id, quay }) => ({
          name: `berth ${id}`,
          title: `Berth ${id}, ${quay}`,
          uri: `${uri}/${id}`,
          mimeType,
        })),
      }),
      complete: { id: berthsBeginningWith },
    }),
    { title: "Berth", description: "One berth of the harbor by its name, such as A1, as JSON", mimeType },
    ({ href }, { id }) => {
      const berth = berths.find((candidate) => candidate.id === id);
      if (berth === undefined) throw new ResourceNotFoundError(href);
      return { contents: [{ uri: href, mimeType, text: JSON.stringify(berth, undefined, 2) }] };
    },
  );
  server.registerPrompt(
    "plan_arrival",
    {
      title: "Plan an arrival",
      description: "Asks the model to plan how a ship comes in to its berth",
      argsSchema: z.object({
        ship: z.string().describe("Name of the ship"),
        berth: completable(z.string().describe("Name of the berth, such as A1"), berthsBeginningWith),
      }),
    },
    ({ ship, berth }) => ({
      description: `The arrival of ${ship} at berth ${berth}`,
      messages: [
        {
          role: "user",
          content: {
            type: "text",
            text: `The ship ${ship} arrives tomorrow morning at berth ${berth}. Read the resource ${uri}, say whether the berth suits the ship, and write a plan of five steps for its arrival.`,
          },
        },
      ],
    }),
  );
}

function berthsBeginningWith(begun: string | undefined): string[] {
  const wanted = (begun ?? "").toUpperCase();
  return berths.map(({ id }) => id).filter((id) => id.startsWith(wanted));
}
