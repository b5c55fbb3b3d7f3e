import type { LogEvent } from "./engine/surroundings.ts"

/** How the log is written. */
export interface LogForm {
  readonly format: "text" | "json"
  readonly node: string
  /** Whether systemd's journal reads it, which has a time of its own, and a priority in front of each line: sd-daemon(3). */
  readonly isJournal: boolean
}

/** syslog(3) */
const priorities = { error: 3, warning: 4, info: 6 } as const

/** One line of the log: an event with the node, and with pool and block where it is about one. */
export function formatEvent({ format, node, isJournal }: LogForm, event: LogEvent, at: Date): string {
  const { level, message, pool, block } = event
  const time = at.toISOString()
  if (format === "json") return `${JSON.stringify({ time, level, message, node, pool, block })}\n`
  const about = Object.entries({ node, pool, block }).flatMap(([key, value]) => (value ? [`${key}=${value}`] : []))
  const head = isJournal ? `<${priorities[level]}>` : `${time} ${level} `
  return `${head}${[message, ...about].join(" ").replaceAll("\n", " ")}\n`
}
