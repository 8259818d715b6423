/** Requests to the server: the JSON twin of a page, and questions that are sent. */

import { inBrowser } from "./base.ts";

export interface Problem {
  title: string;
  detail: string;
  hint: string;
  status: number;
}

export class ServerProblem extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title);
  }
}

async function answerOf<T>(response: Response): Promise<T> {
  const type = response.headers.get("content-type") ?? "";
  if (response.status === 204) return undefined as T;
  if (response.ok && type.includes("json")) return (await response.json()) as T;
  let problem: Problem = {
    title: response.statusText || `HTTP ${response.status}`,
    detail: "",
    hint: "",
    status: response.status,
  };
  if (type.includes("json")) {
    const body = (await response.json()) as Partial<Problem>;
    problem = {
      title: body.title || problem.title,
      detail: body.detail || "",
      hint: body.hint || "",
      status: response.status,
    };
  }
  throw new ServerProblem(problem);
}

async function request<T>(path: string, options: RequestInit): Promise<T> {
  let response: Response;
  try {
    response = await fetch(inBrowser(path), { credentials: "same-origin", ...options });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ServerProblem({
      title: "The server does not respond",
      detail: "Is allot web still running? The page reconnects automatically.",
      hint: "",
      status: 0,
    });
  }
  return answerOf<T>(response);
}

/** The JSON twin of a page, at the same address. */
export function twin<T>(path: string, signal?: AbortSignal): Promise<T> {
  return request<T>(path, { headers: { Accept: "application/json" }, ...(signal && { signal }) });
}

export function ask<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return request<T>(path, {
    method: "POST",
    headers: { Accept: "application/json", "Content-Type": "application/json" },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  });
}

/** The address of the JSON twin, for people who open it in the browser. */
export function twinAddress(path: string): string {
  const [before = "", query = ""] = path.split("?");
  const parameters = new URLSearchParams(query);
  parameters.set("format", "json");
  return `${before}?${parameters}`;
}
