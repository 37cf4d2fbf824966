import { describe, expect, it } from "vitest";
import { giveTools, openSession } from "../../../test/support/bridged-session.ts";
import type { Revision } from "../../protocol/revisions.ts";

const text = { type: "text", text: "x" };
const image = { type: "image", data: "AAAA", mimeType: "image/png" };
const audio = { type: "audio", data: "AAAAAAAA", mimeType: "audio/wav" };
const link = {
  type: "resource_link",
  uri: "dock://1",
  name: "berth",
  title: "Berth 1",
  description: "By the quay",
};
const linkText = { type: "text", text: "Berth 1: dock://1\nBy the quay" };
const audioText = { type: "text", text: expect.stringMatching(/audio\/wav, about 6 bytes/) };

const expected: readonly (readonly [Revision, readonly unknown[]])[] = [
  ["2024-11-05", [text, image, audioText, linkText, 1]],
  ["2025-03-26", [text, image, audio, linkText, 1]],
  ["2025-06-18", [text, image, audio, link, 1]],
  ["2025-11-25", [text, image, audio, link, 1]],
];

describe("content that came after a client's revision", () => {
  it.each(expected)("becomes text for a client of %s, in tool results", async (revision, content) => {
    const session = await openSession({ revision });
    const call = session.begin("tools/call", { name: "all" });
    await giveTools(session);
    session.upstream
      .take("tools/call")
      .reply({ resultType: "complete", content: [text, image, audio, link, 1], isError: false });
    expect(await call.answer()).toMatchObject({ result: { content, isError: false } });
  });

  it.each(expected)("becomes text for a client of %s, in prompts", async (revision, content) => {
    const session = await openSession({ revision });
    const call = session.begin("prompts/get", { name: "all" });
    const messages = (blocks: readonly unknown[]) =>
      blocks.slice(0, 4).map((block) => ({ role: "user", content: block, vendor: 1 }));
    session.upstream
      .take("prompts/get")
      .reply({ resultType: "complete", messages: messages([text, image, audio, link]) });
    expect(await call.answer()).toMatchObject({ result: { messages: messages(content) } });
  });
});
