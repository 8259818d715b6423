/** What lights up together: everything of the same claim strongly, of the same workload or pod weakly. */

/** Small numbers for keys, which may contain anything, so that they can be words of an attribute. */
const numbers = new Map<string, number>();

export function numberOf(key: string): number {
  const known = numbers.get(key);
  if (known !== undefined) return known;
  numbers.set(key, numbers.size + 1);
  return numbers.size;
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
