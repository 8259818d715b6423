/** Numbers and lists in sentences. */

export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

export function listed(names: readonly string[], limit = 3): string {
  if (names.length <= limit) return names.join(", ");
  return `${names.slice(0, limit).join(", ")} and ${names.length - limit} more`;
}

/** An amount of US dollars: two decimals, or four for the price of a fraction of a cent. */
export function dollars(amount: number | string | undefined): string {
  const number = Number(amount ?? 0);
  if (Number.isNaN(number)) return String(amount);
  const digits = number !== 0 && Math.abs(number) < 0.1 ? 4 : 2;
  return number.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A name's part after the last slash. */
export function shortName(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1);
}
