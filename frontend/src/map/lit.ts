/** What lights up together: everything of the same claim strongly, of the same workload or pod weakly. */

/** A number for a key, which may contain anything, so that it can be a word of an attribute (FNV-1a). Nothing is kept. */
export function numberOf(key: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < key.length; index += 1) hash = Math.imul(hash ^ key.charCodeAt(index), 0x01000193);
  return hash >>> 0;
}

/** The attributes of an element that belongs to holders. */
export function litAttributes(
  holders: readonly { claim: string; workload: string; category?: string }[],
): Record<string, string> {
  if (!holders.length) return {};
  return {
    "data-c": holders.map(({ claim }) => numberOf(claim)).join(" "),
    "data-w": holders.map(({ workload }) => numberOf(workload)).join(" "),
    "data-g": holders.map(({ category }) => numberOf(`category ${category ?? ""}`)).join(" "),
  };
}

function elementsWith(root: Element, attribute: string, words: string): Element[] {
  return words.split(" ").flatMap((word) => [...root.querySelectorAll(`[${attribute}~="${word}"]`)]);
}

/** Lights up what belongs to the element; all else is dimmed. Without an element, nothing is. */
export function light(root: Element, from: Element | null): void {
  for (const element of root.querySelectorAll(".lit, .lit-claim")) element.classList.remove("lit", "lit-claim");
  const claims = from?.getAttribute("data-c") ?? "";
  const workloads = from?.getAttribute("data-w") ?? "";
  const category = from?.getAttribute("data-category") ?? "";
  root.classList.toggle("has-lit", Boolean(claims || workloads || category));
  if (category) for (const element of elementsWith(root, "data-g", category)) element.classList.add("lit");
  if (workloads) for (const element of elementsWith(root, "data-w", workloads)) element.classList.add("lit");
  if (claims) for (const element of elementsWith(root, "data-c", claims)) element.classList.add("lit-claim");
}
