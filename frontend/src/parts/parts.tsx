/** Parts that several screens use: commands to copy, problems, links to objects. */

import { type ComponentChildren, createContext } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import { objectPath } from "../address.ts";
import { ask, type Problem } from "../server.ts";
import { ageText, localTime, useNow } from "./time.ts";

/** Copies a text; where the browser forbids it, selects it instead, so that it can be copied by hand. */
export async function copyText(text: string, shown: Element | null): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const range = document.createRange();
    if (!shown) return false;
    range.selectNodeContents(shown);
    getSelection()?.removeAllRanges();
    getSelection()?.addRange(range);
    return document.execCommand("copy");
  }
}

/** A command line with a button that copies it. */
export function Command({ text, label = "Copy as command" }: { text: string; label?: string }) {
  const [told, setTold] = useState("");
  const shown = useRef<HTMLElement>(null);
  useEffect(() => {
    if (!told) return;
    const timer = setTimeout(() => setTold(""), 2000);
    return () => clearTimeout(timer);
  }, [told]);
  if (!text) return null;
  return (
    <div class="command">
      <code ref={shown} title={text}>
        {text}
      </code>
      <button
        type="button"
        class="quiet"
        aria-label={`${label}: ${text}`}
        onClick={async () => setTold((await copyText(text, shown.current)) ? "Copied" : "Selected: press Ctrl+C")}
      >
        <CopyIcon />
        <span class="command-label">{label}</span>
      </button>
      <span class="told" role="status">
        {told}
      </span>
    </div>
  );
}

/** A command line that changes the cluster; there is none for what is not a cluster. */
export function ChangeCommand({ text }: { text: string | undefined }) {
  return text ? <Command text={text} label="Command that makes this change" /> : null;
}

function CopyIcon() {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
      <path d="M10.5 5.5v-2a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h2" />
    </svg>
  );
}

export function ProblemNote({ problem, children }: { problem: Problem; children?: ComponentChildren }) {
  return (
    <div class="problem" role="alert">
      <strong>{problem.title}</strong>
      {problem.detail && <p>{problem.detail}</p>}
      {problem.hint && <p>{problem.hint}</p>}
      {problem.status === 401 && <Login />}
      {children}
    </div>
  );
}

/** Asks for the token without which the server answers nothing. It is kept in a cookie that scripts cannot read. */
function Login() {
  const [problem, setProblem] = useState("");
  return (
    <form
      class="login"
      onSubmit={async (event) => {
        event.preventDefault();
        const token = new FormData(event.currentTarget).get("token");
        try {
          await ask("/login", { token });
          location.reload();
        } catch (error) {
          setProblem(error instanceof Error ? error.message : String(error));
        }
      }}
    >
      <label>
        <span>Token</span>
        <input type="password" name="token" autocomplete="current-password" required />
      </label>
      <button type="submit" class="primary">
        Sign in
      </button>
      <span role="status">{problem}</span>
    </form>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children && <p>{children}</p>}
    </div>
  );
}

export function Waiting({ what }: { what: string }) {
  return (
    <p class="waiting" role="status">
      Reading {what} …
    </p>
  );
}

/** Time passed since an RFC 3339 time, with the time itself on hover. */
export function Age({ of: time }: { of: string | undefined }) {
  const now = useNow();
  if (!time) return null;
  return (
    <time dateTime={time} title={localTime(time)}>
      {ageText(time, now)}
    </time>
  );
}

/** A list that scrolls by itself: its current row is visible once another one is chosen. */
export function useCurrentRow<T extends HTMLElement>(chosen: string | number) {
  const list = useRef<T>(null);
  useEffect(() => {
    const row = list.current?.querySelector<HTMLElement>("[aria-current]");
    if (!row || !list.current) return;
    const above = row.getBoundingClientRect().top - list.current.getBoundingClientRect().top;
    if (above < 0 || above + row.offsetHeight > list.current.clientHeight) list.current.scrollTop += above;
  }, [chosen]);
  return list;
}

/** Whether what is shown is about this cluster, so that its objects have pages here. */
export const IsHere = createContext(true);

export function ObjectLink({
  kind,
  namespace = "",
  name,
  children,
}: {
  kind: string;
  namespace?: string;
  name: string;
  children?: ComponentChildren;
}) {
  const isHere = useContext(IsHere);
  const text = children ?? (namespace ? `${namespace}/${name}` : name);
  if (!isHere) return <span>{text}</span>;
  return (
    <a class="object" href={objectPath({ kind, namespace, name })}>
      {text}
    </a>
  );
}

export function Code({ children }: { children: string }) {
  return <code class="cause">{children}</code>;
}

/** A bar with a figure, for tables of amounts. */
export function Share({ of: part, total }: { of: number; total: number }) {
  const percent = total > 0 ? Math.max(0.5, (100 * part) / total) : 0;
  return (
    <svg class="share" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
      <rect class="share-all" width="100" height="6" />
      <rect class="share-part" width={percent} height="6" />
    </svg>
  );
}

/** A choice among a few words, as a labelled list. */
export function Choice<T extends string>({
  label,
  value,
  options,
  onChoose,
}: {
  label: string;
  value: string;
  options: readonly T[];
  onChoose: (value: T) => void;
}) {
  return (
    <label class="choice">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChoose(event.currentTarget.value as T)}>
        {options.map((option) => (
          <option key={option} value={option}>
            {option}
          </option>
        ))}
      </select>
    </label>
  );
}
