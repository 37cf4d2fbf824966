import { spanOf } from "../../protocol/json/outline.ts";
import { memberInteger, typeAt } from "../../protocol/json/read.ts";
import { elementsOf, membersOf } from "../../protocol/json/walk.ts";
import { idFrom } from "../../protocol/ids.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import { editObject } from "../object-edit.ts";
import { createRequest } from "../own-messages.ts";

/** MCP 2025-11-25, Elicitation: the user has to open some URLs first; modern servers must not answer with it. */
export const urlElicitationRequired = -32042;

/** The elicitations that an error answer asks for, each as the request that it stands for; undefined for any other answer. */
export function toUrlElicitations(
  answer: Message | undefined,
  newId: () => string,
): readonly RequestMessage[] | undefined {
  if (answer?.kind !== "error" || memberInteger(answer, "error.code") !== urlElicitationRequired)
    return undefined;
  const { bytes } = answer;
  const data = spanOf(answer.outline, "error.data");
  if (data === undefined || typeAt(bytes, data.start) !== "object") return undefined;
  const list = [...membersOf(bytes, data)].find(({ name }) => name === "elicitations")?.value;
  if (list === undefined || typeAt(bytes, list.start) !== "array") return undefined;
  const questions = [...elementsOf(bytes, list)]
    .filter(({ start }) => typeAt(bytes, start) === "object")
    .map((elicitation) => {
      const params = editObject(bytes, elicitation, (name) => (name === "mode" ? "drop" : "keep"), [
        ["mode", '"url"'],
      ]);
      return createRequest(idFrom(newId()), "elicitation/create", params.toString());
    });
  return questions.length === 0 ? undefined : questions;
}
