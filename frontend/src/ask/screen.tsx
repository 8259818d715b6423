/** Ask: a manifest beside the answer, on this cluster, a snapshot, a fleet, or nothing, which answers with a plan. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { go, useAddress, withQuery } from "../address.ts";
import { ownPath } from "../base.ts";
import { ProblemNote } from "../parts/parts.tsx";
import { ask, type Problem } from "../server.ts";
import { Notes, ScreenHead, Unanswered, useClusterHeader } from "../shell/shell.tsx";
import { problemOf, useTwin } from "../twin.ts";
import type { AskAnswer, AskOptions, Cluster, Finding } from "../types.ts";
import { AskResult } from "./answer.tsx";
import type { Editor } from "./editor.ts";
import { applied, editsOf, marksOf, offsetOf } from "./replacements.ts";
import { packed, unpacked } from "./share.ts";

const PLACES = [
  { value: "cluster", name: "this cluster" },
  { value: "fleet", name: "a fleet" },
  { value: "snapshot", name: "a snapshot" },
  { value: "none", name: "no hardware: plan" },
] as const;
type Place = (typeof PLACES)[number]["value"];

/** How long nothing must be typed before the answer is asked for, in milliseconds. */
const QUIET = 250;

export function AskScreen() {
  const { value: options, problem } = useTwin<AskOptions>("/ask");
  useClusterHeader(options?.cluster);
  if (!options) return <Unanswered title="Ask" what="the vocabulary" problem={problem} />;
  return <Question options={options} />;
}

function Question({ options }: { options: AskOptions }) {
  const address = useAddress();
  const written = address.query.get("on");
  const initial: Place = options.cluster.place === "none" ? "none" : "cluster";
  const chosen = PLACES.find(({ value }) => value === written)?.value ?? initial;
  const place = chosen === "cluster" ? initial : chosen;
  const fleet = address.query.get("fleet") ?? "dgx-a100-40gb:2,t4-4x-pcie:3";
  const [text, setText] = useState<string | null>(null);
  const [snapshot, setSnapshot] = useState({ name: "", text: "" });
  const [answer, setAnswer] = useState<AskAnswer | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isAsking, setIsAsking] = useState(false);
  const [round, setRound] = useState(0);
  const editor = useRef<Editor | null>(null);

  // The question of the link, or the example.
  const ownFragment = useRef("");
  useEffect(() => {
    if (address.fragment === ownFragment.current && text !== null) return;
    let isOver = false;
    void (address.fragment ? unpacked(address.fragment) : Promise.resolve(options.example ?? "")).then((found) => {
      if (isOver) return;
      const next = found ?? options.example ?? "";
      setText(next);
      editor.current?.setText(next);
    });
    return () => {
      isOver = true;
    };
  }, [address.fragment]);

  useEffect(() => {
    if (text === null) return;
    if (place === "snapshot" && !snapshot.text) {
      setAnswer(null);
      return;
    }
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      if (!text.trim()) {
        setAnswer(null);
        setProblem(null);
        return;
      }
      setIsAsking(true);
      try {
        const found = await ask<AskAnswer>(
          "/ask",
          { text, on: place, fleet: place === "fleet" ? fleet : "", snapshot: place === "snapshot" ? snapshot.text : "" },
          abort.signal,
        );
        setAnswer(found);
        setProblem(null);
        editor.current?.setMarks(marksOf(text, found.check?.findings ?? []));
      } catch (error) {
        if (!abort.signal.aborted) setProblem(problemOf(error));
      }
      if (!abort.signal.aborted) setIsAsking(false);
    }, QUIET);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text, place, fleet, snapshot, round, place === "cluster" ? options.cluster.revision : 0]);

  // The link holds the whole question.
  useEffect(() => {
    if (text === null || text === (options.example ?? "")) return;
    const timer = setTimeout(async () => {
      const fragment = await packed(text);
      if (fragment.length > 30_000) return; // longer than browsers and chats accept
      ownFragment.current = fragment;
      const { path, query } = { path: ownPath(), query: location.search };
      go(`${path}${query}#${fragment}`, { replace: true });
    }, 600);
    return () => clearTimeout(timer);
  }, [text]);

  function change(next: string): void {
    setText(next);
    editor.current?.setText(next);
  }

  function fix(finding: Finding): void {
    if (text !== null) change(applied(text, editsOf(text, finding)));
  }

  async function readSnapshot(event: Event): Promise<void> {
    const file = (event.currentTarget as HTMLInputElement).files?.[0];
    if (file) setSnapshot({ name: file.name, text: await file.text() });
  }

  return (
    <>
      <ScreenHead title="Ask" command={answer?.command ?? options.command}>
        Would it run, and where? The answer follows while you type; the link in the address bar holds the whole question.
      </ScreenHead>
      <Notes notes={options.cluster.notes} />
      <div class="ask">
        <div class="ask-question">
          <div class="tools">
            <Places place={place} cluster={options.cluster} onChoose={(value) => go(withQuery({ on: value === initial ? "" : value }), { replace: true })} />
            {place === "fleet" && <FleetField fleet={fleet} options={options} />}
            {place === "snapshot" && (
              <label class="file">
                <span>{snapshot.name || "Choose a file of allot snapshot"}</span>
                <input type="file" accept=".yaml,.yml,.json,.gz" onChange={readSnapshot} />
              </label>
            )}
          </div>
          {text !== null && (
            <ManifestEditor
              text={text}
              options={options}
              onReady={(made) => {
                editor.current = made;
                made.setMarks(marksOf(text, answer?.check?.findings ?? []));
              }}
              onChange={setText}
              onSubmit={() => setRound((last) => last + 1)}
            />
          )}
        </div>
        <div class="ask-answer" aria-live="polite" aria-busy={isAsking}>
          {problem && <ProblemNote problem={problem} />}
          {place === "snapshot" && !snapshot.text ? (
            <p class="waiting">The answer appears once there is a snapshot. It stays in this browser and this server's memory.</p>
          ) : answer ? (
            <AskResult answer={answer} isHere={place === "cluster"} onFix={fix} onGo={(line, column) => editor.current?.goTo(offsetOf(text ?? "", line, column))} />
          ) : (
            !problem && <p class="waiting">{text?.trim() ? "Asking …" : "Paste a manifest on the left, or start with the example."}</p>
          )}
          {!text?.trim() && options.example && (
            <button type="button" onClick={() => change(options.example ?? "")}>
              Use the example
            </button>
          )}
        </div>
      </div>
    </>
  );
}

function Places({ place, cluster, onChoose }: { place: Place; cluster: Cluster; onChoose: (place: Place) => void }) {
  const places = PLACES.filter(({ value }) => value !== "cluster" || cluster.place !== "none");
  return (
    <fieldset class="segments">
      <legend class="unseen">On what</legend>
      {places.map(({ value, name }) => (
        <label key={value} title={value === "cluster" ? cluster.name : undefined}>
          <input type="radio" name="place" value={value} checked={place === value} onChange={() => onChoose(value)} />
          <span>{name}</span>
        </label>
      ))}
    </fieldset>
  );
}

function FleetField({ fleet, options }: { fleet: string; options: AskOptions }) {
  // What is typed must survive an answer that arrives meanwhile.
  const [typed, setTyped] = useState(fleet);
  useEffect(() => setTyped(fleet), [fleet]);
  return (
    <label class="fleet">
      <span class="unseen">Fleet</span>
      <input
        type="text"
        class="mono"
        value={typed}
        spellcheck={false}
        list="fleet-hardware"
        onInput={(event) => setTyped(event.currentTarget.value)}
        onChange={(event) => go(withQuery({ fleet: event.currentTarget.value }), { replace: true })}
      />
      <datalist id="fleet-hardware">
        {(options.hardware ?? []).map(({ name, product, gpus, memory }) => (
          <option key={name} value={`${name}:1`}>
            {[gpus && `${gpus} ×`, product, memory].filter(Boolean).join(" ")}
          </option>
        ))}
      </datalist>
    </label>
  );
}

function ManifestEditor({
  text,
  options,
  onReady,
  onChange,
  onSubmit,
}: {
  text: string;
  options: AskOptions;
  onReady: (editor: Editor) => void;
  onChange: (text: string) => void;
  onSubmit: () => void;
}) {
  const host = useRef<HTMLDivElement>(null);
  const hint = useRef<HTMLParagraphElement>(null);
  const [isMissing, setIsMissing] = useState(false);
  const latest = useRef({ onChange, onSubmit, vocabulary: options.vocabulary ?? {} });
  latest.current = { onChange, onSubmit, vocabulary: options.vocabulary ?? {} };
  const initial = useMemo(() => text, []);
  useEffect(() => {
    let made: Editor | null = null;
    let isOver = false;
    import("./editor.ts")
      .then(({ createEditor }) => {
        if (isOver || !host.current) return;
        made = createEditor(host.current, {
          text: initial,
          vocabulary: () => latest.current.vocabulary,
          onChange: (next) => latest.current.onChange(next),
          onSubmit: () => latest.current.onSubmit(),
          onLeave: () => hint.current?.focus(),
        });
        onReady(made);
      })
      .catch(() => setIsMissing(true));
    return () => {
      isOver = true;
      made?.destroy();
    };
  }, []);
  if (isMissing)
    return (
      <textarea
        class="editor mono"
        aria-label="Manifest, YAML"
        spellcheck={false}
        value={text}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
    );
  return (
    <>
      <div class="editor" ref={host} />
      <p class="hint" ref={hint} tabIndex={-1}>
        Ctrl+Space completes names, Escape leaves the editor, Ctrl+Enter asks again.
      </p>
    </>
  );
}
