import { isJsonContentType, readRequestBody } from "@modelcontextprotocol/server";

import { refuseRequest } from "./refusal.ts";

/** The JSON body of a request, which stays readable; undefined if the body is too large or not JSON. */
export async function peekJsonBody(request: Request, maxBytes: number): Promise<unknown> {
  try {
    const body = await readRequestBody(request.clone(), maxBytes);
    return body.tooLarge ? undefined : JSON.parse(body.text);
  } catch {
    return undefined;
  }
}

/** The JSON body of a request, or the response that refuses it. */
export async function readJsonBody(
  request: Request,
  maxBytes: number,
): Promise<{ readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly response: Response }> {
  if (!isJsonContentType(request.headers.get("content-type"))) {
    return { ok: false, response: refuseRequest("unsupported_media_type") };
  }
  const body = await readRequestBody(request, maxBytes);
  if (body.tooLarge) return { ok: false, response: refuseRequest("too_large") };
  try {
    return { ok: true, value: JSON.parse(body.text) };
  } catch {
    return {
      ok: false,
      response: Response.json(
        { error: "validation_failed", message: "invalid arguments: the body is not JSON" },
        { status: 400 },
      ),
    };
  }
}
