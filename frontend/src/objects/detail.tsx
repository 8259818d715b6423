/** One object: its state, what it refers to and who refers to it, its timeline, its YAML. */

import { useRef, useState } from "preact/hooks";
import { copyText, Empty, ObjectLink, ProblemNote } from "../parts/parts.tsx";
import { Age } from "../parts/parts.tsx";
import { STATES } from "../map/model.ts";
import { DeleteButton, FaultButtons } from "../history/actions.tsx";
import { lastKnownCluster, ScreenHead, Unanswered, useClusterHeader } from "../shell/shell.tsx";
import { useTwin } from "../twin.ts";
import type { ObjectScreen as ObjectAnswer, Reference, TimelineEntry } from "../types.ts";

export function ObjectScreen({ path }: { path: string }) {
  const { value, problem } = useTwin<ObjectAnswer>(path);
  useClusterHeader(value?.cluster);
  const isGone = useIsGone(path, value !== null && problem === null);
  if (!value || (problem && !isGone))
    return (
      <Unanswered title={titleOf(path)} what="the object" problem={problem}>
        <p>
          <a href="/objects">All objects</a>
        </p>
        {path.startsWith("/objects/device/") && lastKnownCluster()?.place === "lab" && (
          <div class="tools">
            <FaultButtons kind="device" name={decodeURIComponent(path.slice("/objects/device/".length))} />
          </div>
        )}
      </Unanswered>
    );
  const full = value.namespace ? `${value.namespace}/${value.name}` : value.name;
  return (
    <>
      <ScreenHead
        title={
          <>
            <span class="kind">{value.kind}</span> {full}
          </>
        }
        command={value.command}
      >
        {value.sentence || (value.kind === "device" ? (STATES[value.state ?? ""] ?? value.state) : value.state)}
      </ScreenHead>
      {problem && <ProblemNote problem={problem} />}
      {value.cluster.place === "lab" && (
        <div class="tools">
          <DeleteButton kind={value.kind} namespace={value.namespace ?? ""} name={value.name} />
          <FaultButtons kind={value.kind} name={full} />
        </div>
      )}
      {value.group && (
        <p class="why">
          <a class="primary-link" href={`/pending/${encodeURIComponent(value.group)}`}>
            Why it is pending, and what would help
          </a>
        </p>
      )}
      <div class="object-page">
        <div>
          {value.facts?.length ? (
            <section aria-labelledby="facts-title">
              <h2 id="facts-title">State</h2>
              <dl class="facts">
                {value.facts.map((fact, index) => (
                  <div key={`${fact.name} ${index}`}>
                    <dt>{fact.name}</dt>
                    <dd>{fact.value}</dd>
                  </div>
                ))}
              </dl>
            </section>
          ) : null}
          <References title="Refers to" references={value.refersTo ?? []} />
          <References title="Referred to by" references={value.referredBy ?? []} />
        </div>
        <div>
          {(value.timeline?.length || !["device", "pool"].includes(value.kind)) && <Timeline entries={value.timeline ?? []} />}
          {value.yaml && <Yaml text={value.yaml} />}
        </div>
      </div>
    </>
  );
}

/** The kind and name in a path. */
function titleOf(path: string): string {
  const [kind = "", ...name] = path.split("/").slice(2).map(decodeURIComponent);
  return `${kind} ${name.join("/")}`;
}

/** Whether the object of a path was seen before; then it is shown as it was, with what is wrong now. */
function useIsGone(path: string, isSeen: boolean): boolean {
  const seen = useRef("");
  if (isSeen) seen.current = path;
  return seen.current === path;
}

function References({ title, references }: { title: string; references: Reference[] }) {
  const [isAll, setIsAll] = useState(false);
  if (!references.length) return null;
  const shown = isAll ? references : references.slice(0, 20);
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <ul class="references">
        {shown.map((reference, index) => (
          <li key={`${reference.kind} ${reference.namespace} ${reference.name} ${index}`}>
            <span class="relation">{reference.relation}</span>
            <span class="kind">{reference.kind}</span>
            <ObjectLink kind={reference.kind} namespace={reference.namespace ?? ""} name={reference.name} />
          </li>
        ))}
      </ul>
      {references.length > shown.length && (
        <button type="button" onClick={() => setIsAll(true)}>
          Show all {references.length}
        </button>
      )}
    </section>
  );
}

function Timeline({ entries }: { entries: TimelineEntry[] }) {
  return (
    <section aria-labelledby="timeline-title">
      <h2 id="timeline-title">Timeline</h2>
      {entries.length ? (
        <ol class="timeline">
          {entries.map((entry, index) => (
            <li key={index}>
              <span class="timeline-time">{entry.time ? <Age of={entry.time} /> : "–"}</span>
              <span class="timeline-text">
                {entry.reason && <strong>{entry.reason}</strong>} {entry.text}
                {entry.source && <span class="soft"> {entry.source}</span>}
              </span>
            </li>
          ))}
        </ol>
      ) : (
        <Empty title="No events, allocations or condition changes are known" />
      )}
    </section>
  );
}

function Yaml({ text }: { text: string }) {
  const shown = useRef<HTMLPreElement>(null);
  const [told, setTold] = useState("");
  return (
    <section aria-labelledby="yaml-title">
      <div class="section-head">
        <h2 id="yaml-title">YAML</h2>
        <button
          type="button"
          class="quiet"
          onClick={async () => setTold((await copyText(text, shown.current)) ? "Copied" : "Selected")}
        >
          Copy<span class="unseen"> the YAML</span>
        </button>
        <span class="told" role="status">
          {told}
        </span>
      </div>
      <pre ref={shown} class="yaml" tabIndex={0} aria-label="YAML">
        {text}
      </pre>
    </section>
  );
}
