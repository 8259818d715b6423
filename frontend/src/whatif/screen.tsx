/** What if: assumed changes, who loses devices, where they would go, who is stranded, what would have to be bought. */

import { useEffect, useState } from "preact/hooks";
import { go, namespaced, objectPath, useAddress } from "../address.ts";
import { mergeMap } from "../map/merge.ts";
import { MapView } from "../map/screen.tsx";
import { STATES, totalOf, withOwnTotals } from "../map/model.ts";
import { Patterns } from "../map/patterns.tsx";
import { StateBar } from "../map/totals.tsx";
import { ChangeCommand, Code, Empty, ProblemNote, Waiting } from "../parts/parts.tsx";
import { counted, dollars, listed } from "../parts/text.ts";
import { Notes, ScreenHead, useClusterHeader } from "../shell/shell.tsx";
import { useTwin } from "../twin.ts";
import type { PlannedCost, Totals, WhatIfScreen as WhatIfAnswer } from "../types.ts";
import { ACTIONS, type Change, parsed, pathOf } from "./changes.ts";

export function WhatIfScreen() {
  const address = useAddress();
  const changes = address.query.getAll("change").map(parsed);
  const { value, problem, isStale } = useTwin<WhatIfAnswer>(pathOf(changes));
  useClusterHeader(value?.cluster);
  const set = (next: Change[]) => go(pathOf(next));
  return (
    <>
      <ScreenHead title="What-if" command={value?.command}>
        Assume changes to a copy of the cluster; nothing is changed in the cluster itself.
      </ScreenHead>
      <Notes notes={value?.cluster.notes} />
      <ChangeForm targets={value?.targets ?? {}} onAdd={(change) => set([...changes, change])} />
      {changes.length > 0 && (
        <ul class="assumed" aria-label="Assumed changes">
          {changes.map((change, index) => {
            const text = !isStale && value?.changes?.[index];
            return (
              <li key={index}>
                <span>{text || [change.action, change.target, change.value].filter(Boolean).join(" ")}</span>
                <button
                  type="button"
                  class="quiet"
                  aria-label={`Do not assume: ${change.action} ${change.target}`}
                  onClick={() => set(changes.filter((_, other) => other !== index))}
                >
                  ✕
                </button>
              </li>
            );
          })}
        </ul>
      )}
      {problem && <ProblemNote problem={problem} />}
      {!value ? (
        !problem && <Waiting what="the cluster" />
      ) : changes.length === 0 ? (
        <Empty title="Nothing is assumed yet">Choose a change above: for example, which pods would be stranded if a node were drained?</Empty>
      ) : (
        <div aria-live="polite" aria-busy={isStale}>
          {!problem && <Outcome value={value} />}
        </div>
      )}
    </>
  );
}

function ChangeForm({ targets, onAdd }: { targets: Record<string, string[]>; onAdd: (change: Change) => void }) {
  const [name, setName] = useState("drain");
  const [target, setTarget] = useState("");
  const [value, setValue] = useState("");
  const action = ACTIONS.find((one) => one.action === name) ?? ACTIONS[0];
  const isReady = action !== undefined && (!action.targets || target.trim() !== "") && (!action.value || value.trim() !== "");
  useEffect(() => {
    setTarget("");
    setValue("");
  }, [name]);
  if (!action) return null;
  return (
    <form
      class="change-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (!isReady) return;
        onAdd({ action: name, target: target.trim(), value: value.trim() });
        setTarget("");
        setValue("");
      }}
    >
      <label>
        <span>Assume</span>
        <select value={name} onChange={(event) => setName(event.currentTarget.value)}>
          {ACTIONS.map((one) => (
            <option key={one.action} value={one.action}>
              {one.name}
            </option>
          ))}
        </select>
      </label>
      {action.targets && (
        <label>
          <span>{action.target}</span>
          <input
            type="text"
            list={`targets-${action.targets}`}
            placeholder={targets[action.targets]?.[0] ?? action.example}
            value={target}
            spellcheck={false}
            autocomplete="off"
            onInput={(event) => setTarget(event.currentTarget.value)}
          />
          <datalist id={`targets-${action.targets}`}>
            {(targets[action.targets] ?? []).slice(0, 500).map((option) => (
              <option key={option} value={option} />
            ))}
          </datalist>
        </label>
      )}
      {action.value && (
        <label>
          <span>{action.value}</span>
          <input
            type="text"
            {...(action.values && { list: `values-${action.values}` })}
            placeholder={targets[action.values]?.[0] ?? ""}
            value={value}
            spellcheck={false}
            autocomplete="off"
            onInput={(event) => setValue(event.currentTarget.value)}
          />
          {action.values && (
            <datalist id={`values-${action.values}`}>
              {(targets[action.values] ?? []).map((option) => (
                <option key={option} value={option} />
              ))}
            </datalist>
          )}
        </label>
      )}
      <button type="submit" class="primary" disabled={!isReady}>
        Assume it
      </button>
    </form>
  );
}

function Outcome({ value }: { value: WhatIfAnswer }) {
  const { losing = [], moving = [], stranded = [], purchase } = value;
  const count = (name: string, rows: unknown[]) => value.counts?.[name] ?? rows.length;
  return (
    <>
      <ul class="figures">
        <Figure count={count("losing", losing)} text={losing.length === 1 ? "pod loses devices" : "pods lose devices"} />
        <Figure count={count("moving", moving)} text="would run elsewhere" />
        <Figure count={count("stranded", stranded)} text={stranded.length === 1 ? "is stranded" : "are stranded"} isBad={stranded.length > 0} />
        {purchase && <Figure count={`${dollars(purchase.usdPerHour)}`} text="USD/h to buy for them" />}
      </ul>
      <ChangeCommand text={value.changeCommand} />
      <BeforeAfter before={value.before ?? {}} after={value.after ?? {}} />
      <div class="columns">
        {stranded.length > 0 && (
          <section aria-labelledby="stranded-title">
            <h2 id="stranded-title">Stranded</h2>
            <ul class="rows">
              {stranded.map(({ pod, code, summary, remedy }) => (
                <li key={pod}>
                  <PodLink pod={pod} />: {summary} {code && <Code>{code}</Code>}
                  {remedy && <span class="soft">; would help: {remedy}</span>}
                </li>
              ))}
            </ul>
          </section>
        )}
        {moving.length > 0 && (
          <section aria-labelledby="moving-title">
            <h2 id="moving-title">Run elsewhere</h2>
            <ul class="rows">
              {moving.map(({ pod, from, to }) => (
                <li key={pod}>
                  <PodLink pod={pod} /> <span class="soft">{from || "new"} →</span> {to}
                </li>
              ))}
            </ul>
          </section>
        )}
        {losing.length > 0 && (
          <section aria-labelledby="losing-title">
            <h2 id="losing-title">Lose devices</h2>
            <ul class="rows">
              {losing.map(({ pod, claim, devices }) => (
                <li key={`${pod} ${claim}`}>
                  <PodLink pod={pod} /> <span class="soft">{claim}</span> {listed(devices ?? [], 4)}
                </li>
              ))}
            </ul>
          </section>
        )}
        {purchase && (
          <section aria-labelledby="purchase-title">
            <h2 id="purchase-title">To buy</h2>
            <ul class="rows">
              {(purchase.machines ?? []).map((machine, index) => (
                <li key={index}>{machineText(machine)}</li>
              ))}
            </ul>
            {purchase.verdict && <p class="soft">{purchase.verdict}</p>}
            {purchase.unserved?.map(({ pod, text }) => (
              <p class="note" key={pod}>
                no machine serves {pod}: {text}
              </p>
            ))}
            {purchase.bound != null && <p class="soft">Nothing in the catalog costs less than {dollars(purchase.bound)} USD/h.</p>}
          </section>
        )}
      </div>
      {value.notes?.map((note) => (
        <p class="note" key={note}>
          {note}
        </p>
      ))}
      <AfterMap value={value} />
    </>
  );
}

type Machine = NonNullable<PlannedCost["machines"]>[number];

export function machineText({ instance, count = 1, zone, capacityType, usdPerHour }: Machine): string {
  const price = usdPerHour && `${dollars(usdPerHour)} USD/h${count > 1 ? " each" : ""}`;
  return [`${count} × ${instance}`, zone, capacityType === "on-demand" ? "" : capacityType, price].filter(Boolean).join(", ");
}

function Figure({ count, text, isBad = false }: { count: number | string; text: string; isBad?: boolean }) {
  return (
    <li class={isBad ? "figure figure-bad" : "figure"}>
      <strong>{typeof count === "number" ? count.toLocaleString("en") : count}</strong>
      <span>{text}</span>
    </li>
  );
}

function PodLink({ pod }: { pod: string }) {
  return (
    <a class="object" href={objectPath({ kind: "pod", ...namespaced(pod) })}>
      {pod}
    </a>
  );
}

function BeforeAfter({ before, after }: { before: Totals; after: Totals }) {
  const states = Object.keys(STATES).filter((state) => before[state] || after[state]);
  const largest = Math.max(totalOf(before), totalOf(after));
  if (!largest) return null;
  return (
    <section class="before-after" aria-labelledby="before-title">
      <Patterns />
      <h2 id="before-title">Devices before and after</h2>
      {[
        { name: "before", totals: before },
        { name: "after", totals: after },
      ].map(({ name, totals }) => (
        <div class="before-row" key={name}>
          <span>{name}</span>
          <StateBar totals={totals} states={states.filter((state) => totals[state])} total={largest} />
          <span class="soft">
            {states
              .filter((state) => totals[state])
              .map((state) => `${(totals[state] ?? 0).toLocaleString("en")} ${STATES[state]}`)
              .join(", ")}
          </span>
        </div>
      ))}
    </section>
  );
}

function AfterMap({ value }: { value: WhatIfAnswer }) {
  const { map } = value;
  if (!map?.nodes?.length) return null;
  const shown = withOwnTotals({ ...mergeMap(null, map), cluster: value.cluster });
  return (
    <section class="after" aria-labelledby="after-title">
      <h2 id="after-title">{counted(map.nodes.length, "node")} after the change</h2>
      <MapView map={shown} />
    </section>
  );
}
