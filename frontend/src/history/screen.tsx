/** The history of a lab: a slider over its revisions beside the map at that time; apply, delete, faults. */

import { useState } from "preact/hooks";
import { go, useAddress, withQuery } from "../address.ts";
import { MapScreen } from "../map/screen.tsx";
import { Age, Empty, ProblemNote, useCurrentRow } from "../parts/parts.tsx";
import { localTime } from "../parts/time.ts";
import { ScreenHead, Unanswered, useClusterHeader } from "../shell/shell.tsx";
import { useTwin } from "../twin.ts";
import type { HistoryScreen as HistoryAnswer } from "../types.ts";
import { Told, useAction } from "./actions.tsx";

export function HistoryScreen() {
  const { value, problem } = useTwin<HistoryAnswer>("/history");
  useClusterHeader(value?.cluster);
  const address = useAddress();
  const list = useCurrentRow<HTMLOListElement>(`${address.query.get("at")} ${value !== null}`);
  if (!value) return <Unanswered title="History" what="the history" problem={problem} />;
  const revisions = value.revisions ?? [];
  const latest = revisions.at(-1);
  const wanted = Number(address.query.get("at") ?? latest?.revision ?? 0);
  const index = Math.max(
    0,
    revisions.reduce((found, { revision }, position) => (revision <= wanted ? position : found), 0),
  );
  const current = revisions[index];
  const isPast = current && current !== latest;
  const goTo = (position: number) =>
    go(withQuery({ at: revisions[position] === latest ? "" : String(revisions[position]?.revision ?? "") }), { replace: true });
  return (
    <>
      <ScreenHead title="History" command={value.command}>
        What happened in this lab, and how its devices were held at any of these times.
      </ScreenHead>
      {problem && <ProblemNote problem={problem} />}
      <div class="history">
        <div class="history-side">
          <Apply />
          <section aria-labelledby="revisions-title">
            <h2 id="revisions-title">Changes</h2>
            {revisions.length ? (
              <ol class="revisions" ref={list} tabIndex={0} aria-label="Changes, the newest first">
                {revisions
                  .map((revision, position) => ({ ...revision, position }))
                  .reverse()
                  .slice(0, 300)
                  .map(({ revision, time, text, position }) => (
                    <li key={revision}>
                      <button type="button" aria-current={position === index ? "true" : undefined} onClick={() => goTo(position)}>
                        <span class="timeline-time">
                          <Age of={time} />
                        </span>
                        <span>{text || `revision ${revision}`}</span>
                      </button>
                    </li>
                  ))}
              </ol>
            ) : (
              <Empty title="Nothing happened yet" />
            )}
          </section>
        </div>
        <div class="history-main">
          {revisions.length > 1 && (
            <label class="slider">
              <span class="slider-text">
                {isPast ? (
                  <>
                    As it was at <strong>{localTime(current?.time)}</strong>: {current?.text}
                  </>
                ) : (
                  "Now"
                )}
              </span>
              <input
                type="range"
                min={0}
                max={revisions.length - 1}
                value={index}
                aria-label="Time"
                aria-valuetext={`${current?.text ?? ""} ${isPast ? localTime(current?.time) : "now"}`}
                onInput={(event) => goTo(Number(event.currentTarget.value))}
              />
            </label>
          )}
          <MapScreen key={isPast ? "past" : "now"} path={isPast ? `/map?at=${current?.revision}` : "/map"} hasPending={false} />
        </div>
      </div>
    </>
  );
}

function Apply() {
  const action = useAction();
  const [text, setText] = useState("");
  return (
    <section aria-labelledby="apply-title">
      <h2 id="apply-title">Apply</h2>
      <textarea
        class="mono apply"
        aria-label="Manifests to apply, YAML"
        placeholder="Manifests to apply, YAML"
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button type="button" class="primary" disabled={action.isRunning || !text.trim()} onClick={() => void action.run("/lab/apply", { text })}>
        Apply
      </button>
      <Told {...action} />
      <p class="hint">To delete an object or to break a device, open its page from the map.</p>
    </section>
  );
}
