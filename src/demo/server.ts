import { setTimeout as delay } from "node:timers/promises";

import {
  acceptedContent,
  type CallToolResult,
  completable,
  inputRequired,
  inputResponse,
  McpServer,
  ResourceNotFoundError,
  ResourceTemplate,
  type ServerContext,
} from "@modelcontextprotocol/server";
import * as z from "zod";

/**
 * Creates the demo server: tools that show progress, streaming, elicitation and errors, a resource with a template, and a
 * prompt. It serves clients of both eras and is stateless.
 */
export function createDemoServer(): McpServer {
  const server = new McpServer(
    { name: "headgate-demo", title: "Headgate demo harbor", version: "1.0.0" },
    {
      capabilities: { logging: {} },
      instructions:
        "A small demo harbor. Try `add`, watch progress with `count_slowly` or `tell_story`, and book a berth with `book_berth`.",
    },
  );
  registerTools(server);
  registerBerths(server);
  return server;
}

/** A berth of the demo harbor, which holds one ship. */
interface Berth {
  readonly id: string;
  readonly quay: string;
  readonly lengthMeters: number;
  readonly depthMeters: number;
  readonly power: boolean;
}

/** The berths of the demo harbor; they never change. */
const berths: readonly Berth[] = [
  { id: "A1", quay: "North quay", lengthMeters: 120, depthMeters: 9.5, power: true },
  { id: "A2", quay: "North quay", lengthMeters: 90, depthMeters: 8, power: true },
  { id: "B1", quay: "Fish market", lengthMeters: 35, depthMeters: 4.5, power: false },
  { id: "B2", quay: "Fish market", lengthMeters: 25, depthMeters: 3.5, power: false },
  { id: "C1", quay: "Old pier", lengthMeters: 15, depthMeters: 2.5, power: true },
];

const berthId = z.enum(berths.map(({ id }) => id));

const uri = "harbor://berths";
const mimeType = "application/json";

/** Adds the berths as a resource and a resource template, and a prompt about one of them. */
function registerBerths(server: McpServer): void {
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

const delayMs = z.int().min(0).max(10_000).default(300).describe("Pause between two steps, in milliseconds");

/** Adds one tool for each feature that clients and gateways must handle. */
function registerTools(server: McpServer): void {
  registerAdd(server);
  registerCountSlowly(server);
  registerTellStory(server);
  registerBookBerth(server);
  registerFail(server);
}

function registerAdd(server: McpServer): void {
  server.registerTool(
    "add",
    {
      title: "Add",
      description: "Adds two numbers and returns their sum, as text and as structured content.",
      inputSchema: z.object({
        a: z.number().describe("The first number"),
        b: z.number().describe("The second number"),
      }),
      outputSchema: z.object({ sum: z.number().describe("a + b") }),
      annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
    },
    ({ a, b }) => ({ ...textResult(`${a} + ${b} = ${a + b}`), structuredContent: { sum: a + b } }),
  );
}

function registerCountSlowly(server: McpServer): void {
  server.registerTool(
    "count_slowly",
    {
      title: "Count slowly",
      description:
        "Counts from 1 up to a number with a pause after each step, and reports progress while it runs. Use it to see that progress arrives as it happens and that a call can be cancelled.",
      inputSchema: z.object({
        to: z.int().min(1).max(1000).default(5).describe("The number to count to"),
        delay_ms: delayMs,
      }),
      annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
    },
    async ({ to, delay_ms: pause }, { mcpReq }) => {
      for (let count = 1; count <= to; count++) {
        await reportProgress(mcpReq, { progress: count, total: to, message: `counted to ${count}` });
        await delay(pause, undefined, { signal: mcpReq.signal });
      }
      return textResult(`Counted to ${to}.`);
    },
  );
}

function registerTellStory(server: McpServer): void {
  server.registerTool(
    "tell_story",
    {
      title: "Tell a story",
      description:
        "Tells a short story about a ship, one sentence at a time: each sentence is sent as progress, announced by a log message, and the result has them all.",
      inputSchema: z.object({
        ship: z.string().min(1).max(100).default("Aurora").describe("Name of the ship in the story"),
        delay_ms: delayMs,
      }),
      annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
    },
    async ({ ship, delay_ms: pause }, { mcpReq }) => {
      const sentences = storyOf(ship);
      for (const [index, sentence] of sentences.entries()) {
        await mcpReq.log("info", `sentence ${index + 1} of ${sentences.length} is ready`, "story");
        await reportProgress(mcpReq, { progress: index + 1, total: sentences.length, message: sentence });
        await delay(pause, undefined, { signal: mcpReq.signal });
      }
      return textResult(sentences.join(" "));
    },
  );
}

const answerKey = "berth";

const nightCount = z.int().min(1).max(30).default(1).describe("How many nights the ship stays");

const berthChoice = z.object({ berth: berthId, nights: nightCount });

function registerBookBerth(server: McpServer): void {
  server.registerTool(
    "book_berth",
    {
      title: "Book a berth",
      description:
        "Books a berth in the harbor for a ship. If no berth is given, asks the user which one and for how long (elicitation). The resource harbor://berths has the berths. Nothing is really booked.",
      inputSchema: z.object({
        ship: z.string().min(1).max(100).describe("Name of the ship"),
        berth: berthId.optional().describe("Name of the berth; the user is asked if it is not given"),
        nights: nightCount,
      }),
      annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: false },
    },
    ({ ship, berth, nights }, { mcpReq }) => {
      if (berth !== undefined) return booked(ship, { berth, nights });
      // One handler for both eras: on a legacy session the SDK sends the question itself and calls again.
      const answer = inputResponse(mcpReq.inputResponses, answerKey);
      if (answer.kind !== "elicit") return inputRequired({ inputRequests: { [answerKey]: question(ship) } });
      if (answer.action !== "accept") return textResult(`No berth was booked for ${ship}.`);
      const choice = acceptedContent(mcpReq.inputResponses, answerKey, berthChoice);
      return choice === undefined
        ? errorResult(`The answer names no berth of this harbor; there are ${berthNames()}.`)
        : booked(ship, choice);
    },
  );
}

function question(ship: string): ReturnType<typeof inputRequired.elicit> {
  return inputRequired.elicit({
    message: `Which berth shall ${ship} have?`,
    // Uses only what every revision with elicitation supports.
    requestedSchema: {
      type: "object",
      properties: {
        berth: { type: "string", title: "Berth", enum: berths.map(({ id }) => id) },
        nights: { type: "integer", title: "Nights", minimum: 1, maximum: 30, default: 1 },
      },
      required: ["berth"],
    },
  });
}

function booked(ship: string, { berth, nights }: z.infer<typeof berthChoice>): CallToolResult {
  const quay = berths.find(({ id }) => id === berth)?.quay ?? "harbor";
  const stay = nights === 1 ? "one night" : `${nights} nights`;
  return textResult(`Berth ${berth} (${quay}) is booked for ${ship}, ${stay}.`);
}

function registerFail(server: McpServer): void {
  server.registerTool(
    "fail",
    {
      title: "Fail",
      description: "Always fails with a tool error. Use it to see how errors are shown.",
      inputSchema: z.object({
        reason: z.string().min(1).max(500).default("the crane is broken").describe("What the error says"),
      }),
      annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
    },
    ({ reason }) => errorResult(`It failed: ${reason}.`),
  );
}

interface ProgressStep {
  readonly progress: number;
  readonly total: number;
  readonly message: string;
}

/** Sends progress if the request has a progress token. */
async function reportProgress(mcpReq: ServerContext["mcpReq"], step: ProgressStep): Promise<void> {
  const { _meta: meta } = mcpReq;
  const progressToken = meta?.progressToken;
  if (progressToken === undefined) return;
  await mcpReq.notify({ method: "notifications/progress", params: { progressToken, ...step } });
}

function storyOf(ship: string): readonly string[] {
  return [
    `In the grey of the morning the ${ship} came up the fjord with a broken mast.`,
    "The harbor master saw her from the tower and lit the lamps on the north quay.",
    "Three fishermen rowed out and threw her a line.",
    `By noon the ${ship} lay safe at her berth, and the whole town smelled of coffee.`,
  ];
}

function berthNames(): string {
  return berths.map(({ id }) => id).join(", ");
}

function textResult(text: string): CallToolResult {
  return { content: [{ type: "text", text }] };
}

function errorResult(text: string): CallToolResult {
  return { ...textResult(text), isError: true };
}
