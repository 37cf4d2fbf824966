import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect } from "vitest";

import { eventually } from "../support/eventually.ts";
import type { V2Client } from "../support/v2-client.ts";
import type { FeatureName } from "./features.ts";
import type { Meeting } from "./places.ts";

/** Finds out whether a feature works; throws where it does not. */
export type Probe = (client: V2Client, meeting: Meeting) => Promise<void>;

/** Where a server leaves word, whichever of its processes it is. */
class Note implements Disposable {
  readonly #folder = mkdtempSync(join(tmpdir(), "headgate-matrix-"));
  readonly file = join(this.#folder, "word");

  text(): string | undefined {
    return existsSync(this.file) ? readFileSync(this.file, "utf8") : undefined;
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true });
  }
}

/** How each feature is tried. */
export const probes: Readonly<Record<FeatureName, Probe>> = {
  tools: async (client) => {
    expect(await client.listTools()).toContain("test_simple_text");
    expect((await client.callTool("test_simple_text")).texts).toEqual(["This is a simple text response for testing."]);
    expect((await client.callTool("test_error_handling")).isError).toBe(true);
  },
  resources: async ({ sdk, readResource }) => {
    expect((await sdk.listResources()).resources.map(({ uri }) => uri)).toContain("test://static-text");
    expect((await sdk.listResourceTemplates()).resourceTemplates).not.toHaveLength(0);
    expect(await readResource("test://template/7/data")).toEqual([
      '{"id":"7","templateTest":true,"data":"Data for ID: 7"}',
    ]);
  },
  prompts: async ({ sdk, getPrompt }) => {
    expect((await sdk.listPrompts()).prompts).not.toHaveLength(0);
    expect(await getPrompt("test_prompt_with_arguments", { arg1: "a", arg2: "b" })).toEqual([
      "Prompt with arguments: arg1='a', arg2='b'",
    ]);
  },
  completion: async ({ sdk }) => {
    const { completion } = await sdk.complete({
      ref: { type: "ref/prompt", name: "test_prompt_with_arguments" },
      argument: { name: "arg1", value: "par" },
    });
    expect(completion.values).toBeInstanceOf(Array);
  },
  "unknown names": async ({ callTool }) => {
    const told = await callTool("no_such_tool").then(({ isError, texts }) => (isError ? texts.join(" ") : ""), String);
    expect(told).toMatch(/no_such_tool/u);
  },
  progress: async ({ callTool }) => {
    const reports: number[] = [];
    await callTool("test_tool_with_progress", { onProgress: (report) => reports.push(report) });
    expect(reports).toEqual([0, 50, 100]);
  },
  cancellation: async ({ callTool }) => {
    using note = new Note();
    const leaving = new AbortController();
    const held = callTool("test_hold", {
      args: { key: note.file },
      signal: leaving.signal,
      onProgress: () => {
        leaving.abort(new Error("no longer needed"));
      },
    });
    await expect(held).rejects.toThrow(/no longer needed/u);
    await eventually(() => {
      expect(note.text()).toBe("cancelled");
    });
  },
  elicitation: async ({ callTool, asked }) => {
    expect((await callTool("test_elicitation", { args: { message: "Who?" } })).texts).toEqual([
      'User response: action=accept, content={"response":"Ada"}',
    ]);
    expect(asked).toContain("elicitation/create");
  },
  sampling: async ({ callTool, asked }) => {
    expect((await callTool("test_sampling", { args: { prompt: "Capital?" } })).texts).toEqual(["LLM response: Paris"]);
    expect(asked).toContain("sampling/createMessage");
  },
  roots: async ({ callTool, asked }) => {
    expect((await callTool("test_input_required_result_list_roots")).texts).toEqual(["Client roots: file:///tests"]);
    expect(asked).toContain("roots/list");
  },
  "list changes": async (client, { client: { era } }) => {
    const heard = await listening(client, era, { toolsListChanged: true });
    await client.callTool("test_trigger_tool_change");
    await heard("notifications/tools/list_changed");
  },
  "resource updates": async (client, { client: { era } }) => {
    const uri = "test://watched-resource";
    const heard = await listening(client, era, { resourceSubscriptions: [uri] });
    if (era === "legacy") await client.sdk.subscribeResource({ uri });
    await client.callTool("test_trigger_resource_update");
    await heard("notifications/resources/updated");
  },
  "log messages": async (client, { client: { era } }) => {
    if (era === "legacy") {
      await client.sdk.setLoggingLevel("debug");
      await client.callTool("test_tool_with_logging");
      await eventually(() => {
        expect(client.notified.map(({ method }) => method)).toContain("notifications/message");
      });
    } else {
      await client.sdk.callTool({
        name: "test_tool_with_logging",
        arguments: {},
        _meta: { "io.modelcontextprotocol/logLevel": "debug" },
      });
      // They come before the answer of their call, on the same stream: after another call there are no more to wait for.
      await client.callTool("test_simple_text");
      expect(client.notified.map(({ method }) => method)).toContain("notifications/message");
    }
  },
};

/** Begins to listen as the era has it; the answer waits for a notification. */
async function listening(
  client: V2Client,
  era: Meeting["client"]["era"],
  filter: Parameters<V2Client["sdk"]["listen"]>[0],
): Promise<(method: string) => Promise<void>> {
  if (era === "modern") await client.sdk.listen(filter);
  return async (method) => {
    await eventually(() => {
      expect(client.notified.map((notification) => notification.method)).toContain(method);
    });
  };
}
