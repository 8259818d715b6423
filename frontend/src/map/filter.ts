/**
 * The search of the map and of lists: `ns:team-a product:A100 free>2 -state:free trainer`.
 *
 * Words are combined with "and", values separated by commas with "or"; a minus negates; a word without a key is
 * searched in all names. Values are compared without case, as parts of the text.
 */

export interface DeviceFacts {
  device: string;
  state: string;
  product: string;
  driver: string;
  pool: string;
  card: string;
  ns: string[];
  claim: string[];
  pod: string[];
  workload: string[];
  taint: string[];
}

export interface NodeFacts {
  node: string;
  zone: string;
  rack: string;
  clique: string;
  problem: string[];
  is: string[];
  free: number;
  devices: number;
  used: number;
}

const DEVICE_KEYS = [
  "device",
  "state",
  "product",
  "driver",
  "pool",
  "card",
  "ns",
  "claim",
  "pod",
  "workload",
  "taint",
] as const;
const NODE_KEYS = ["node", "zone", "rack", "clique", "problem", "is"] as const;
const NUMBER_KEYS = ["free", "devices", "used"] as const;

/** Other spellings of keys. */
const ALIASES: Record<string, string> = {
  namespace: "ns",
  n: "ns",
  gpu: "product",
  model: "product",
  type: "product",
  wl: "workload",
  total: "devices",
};

type Comparison = ">" | "<" | ">=" | "<=" | "=";

export type Term =
  | { kind: "device"; key: (typeof DEVICE_KEYS)[number]; values: string[]; isNegated: boolean }
  | { kind: "node"; key: (typeof NODE_KEYS)[number]; values: string[]; isNegated: boolean }
  | { kind: "number"; key: (typeof NUMBER_KEYS)[number]; comparison: Comparison; value: number; isNegated: boolean }
  | { kind: "word"; values: string[]; isNegated: boolean };

export interface Filter {
  terms: Term[];
  /** What is wrong with the search, as a sentence. */
  problem: string;
}

function isOneOf<T extends string>(keys: readonly T[], key: string): key is T {
  return (keys as readonly string[]).includes(key);
}

/** Words, of which parts in double quotes may contain spaces. */
function wordsOf(text: string): string[] {
  return text.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? [];
}

function parseWord(word: string): Term | string {
  const isNegated = word.startsWith("-") && word.length > 1;
  const bare = (isNegated ? word.slice(1) : word).replaceAll('"', "");
  const found = /^([a-z]+)(>=|<=|>|<|=|:)(.*)$/i.exec(bare);
  if (!found) return { kind: "word", values: [bare.toLowerCase()], isNegated };
  const [, written = "", operator = "", text = ""] = found;
  const lower = written.toLowerCase();
  const key = ALIASES[lower] ?? lower;
  if (isOneOf(NUMBER_KEYS, key)) {
    const value = Number(text);
    if (!text || Number.isNaN(value)) return `“${word}”: ${key} is compared with a number, as in ${key}>2`;
    return { kind: "number", key, comparison: operator === ":" ? "=" : (operator as Comparison), value, isNegated };
  }
  if (operator !== ":" && operator !== "=") return `“${word}”: ${key} is compared with a colon, as in ${key}:name`;
  const values = text.toLowerCase().split(",").filter(Boolean);
  if (isOneOf(DEVICE_KEYS, key)) return { kind: "device", key, values, isNegated };
  if (isOneOf(NODE_KEYS, key)) return { kind: "node", key, values, isNegated };
  const known = ["ns", "pod", "claim", "workload", "product", "state", "node", "free"].join(", ");
  return `“${written}” is not known; there are ${known} and others`;
}

export function parseFilter(text: string): Filter {
  const terms: Term[] = [];
  let problem = "";
  for (const word of wordsOf(text)) {
    const term = parseWord(word);
    if (typeof term === "string") problem ||= term;
    else if (term.kind === "number" || term.values.length) terms.push(term);
  }
  return { terms, problem };
}

function contains(texts: readonly string[], values: readonly string[]): boolean {
  return texts.some((text) => {
    const lower = text.toLowerCase();
    return values.some((value) => lower.includes(value));
  });
}

function compare(actual: number, comparison: Comparison, wanted: number): boolean {
  switch (comparison) {
    case ">":
      return actual > wanted;
    case "<":
      return actual < wanted;
    case ">=":
      return actual >= wanted;
    case "<=":
      return actual <= wanted;
    case "=":
      return actual === wanted;
  }
}

function listOf(value: string | string[]): string[] {
  return typeof value === "string" ? [value] : value;
}

/** Whether a node satisfies what the search says about nodes. */
export function nodeMatches({ terms }: Filter, node: NodeFacts): boolean {
  return terms.every((term) => {
    if (term.kind === "number") return compare(node[term.key], term.comparison, term.value) !== term.isNegated;
    if (term.kind === "node") return contains(listOf(node[term.key]), term.values) !== term.isNegated;
    return true;
  });
}

/** Whether a device satisfies what the search says about devices. A word may also be in the name of its node. */
export function deviceMatches({ terms }: Filter, device: DeviceFacts, node: NodeFacts): boolean {
  return terms.every((term) => {
    if (term.kind === "device") return contains(listOf(device[term.key]), term.values) !== term.isNegated;
    if (term.kind === "word") {
      const texts = [
        node.node,
        device.device,
        device.product,
        device.driver,
        ...device.ns,
        ...device.claim,
        ...device.pod,
        ...device.workload,
      ];
      return contains(texts, term.values) !== term.isNegated;
    }
    return true;
  });
}

/** Whether the search asks for properties of devices; if not, nodes alone decide. */
export function asksForDevices({ terms }: Filter): boolean {
  return terms.some((term) => term.kind === "device" || term.kind === "word");
}

/** The search with a value added to a key, or removed if it is there. */
export function toggled(text: string, key: string, value: string): string {
  const written = `${key}:${/\s/.test(value) ? `"${value}"` : value}`;
  const words = wordsOf(text);
  const rest = words.filter((word) => word !== written);
  return (rest.length < words.length ? rest : [...words, written]).join(" ");
}
