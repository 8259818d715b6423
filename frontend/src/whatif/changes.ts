/** Assumed changes in the address: `?change=drain:node-a&change=scale:ml/deploy/web:10`. */

export interface Change {
  action: string;
  target: string;
  value: string;
}

export interface Action {
  action: string;
  name: string;
  /** Which of the server's lists the target is chosen from; empty: there is no target. */
  targets: string;
  target: string;
  /** A target, where the server lists none. */
  example?: string;
  value: string;
  values: string;
}

export const ACTIONS: readonly Action[] = [
  { action: "drain", name: "Drain a node", targets: "nodes", target: "node", value: "", values: "" },
  { action: "remove", name: "Remove a node", targets: "nodes", target: "node", value: "", values: "" },
  { action: "fail-device", name: "A device fails", targets: "devices", target: "pool/device", example: "node-a/gpu-0", value: "", values: "" },
  { action: "taint", name: "Taint a node or device", targets: "nodes", target: "node, or pool/device", value: "key=value:NoSchedule", values: "" },
  { action: "scale", name: "More or fewer replicas", targets: "workloads", target: "namespace/kind/name", value: "replicas", values: "" },
  { action: "mig-mode", name: "Another MIG mode", targets: "nodes", target: "node", value: "static-mig=1g.5gb:7", values: "modes" },
  { action: "kube-version", name: "Another Kubernetes release", targets: "", target: "", value: "1.37", values: "releases" },
  { action: "add-machines", name: "More machines", targets: "machines", target: "hardware, as in dgx-a100-40gb:2", value: "", values: "" },
];

/** Actions with one part only, which may contain colons: `add-machines:dgx-a100-40gb:2`. */
const WHOLE = ["add-machines"];

export function written({ action, target, value }: Change): string {
  return [action, target, value].filter(Boolean).join(":");
}

export function parsed(text: string): Change {
  const [action = "", ...rest] = text.split(":");
  if (action === "kube-version") return { action, target: "", value: rest.join(":") };
  if (WHOLE.includes(action)) return { action, target: rest.join(":"), value: "" };
  const [target = "", ...value] = rest;
  return { action, target, value: value.join(":") };
}

export function pathOf(changes: readonly Change[]): string {
  const query = changes.map((change) => `change=${encodeURIComponent(written(change))}`).join("&");
  return query ? `/what-if?${query}` : "/what-if";
}
