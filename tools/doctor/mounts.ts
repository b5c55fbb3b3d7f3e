import { readTextFile, realPath } from "../../pkg/libc/mod.ts"

/** The mount that contains a file; proc_pid_mountinfo(5). */
export interface Mount {
  readonly point: string
  readonly options: readonly string[]
}

/** Returns the mount of a path: of several on one mount point, the last. Throws if the path does not exist. */
export function mountOf(path: string): Mount {
  const real = realPath(path)
  let best: Mount = { point: "", options: [] }
  for (const line of readTextFile("/proc/self/mountinfo").split("\n")) {
    const [, , , , escaped = "", options = ""] = line.split(" ", 6)
    const point = escaped.includes("\\") ? unescaped(escaped) : escaped
    const isOn = point === "/" || real === point || real.startsWith(`${point}/`)
    if (isOn && point.length >= best.point.length) best = { point, options: options.split(",") }
  }
  return best
}

function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8)))
}
