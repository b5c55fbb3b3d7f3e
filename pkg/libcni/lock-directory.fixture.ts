import { encodeUtf8 } from "../engine/mod.ts"
import { type Fd, Poll, programArguments, writeAll } from "../libc/mod.ts"
import { drive, ready } from "../loop/mod.ts"
import { LockDirectory } from "./lock-directory.ts"

const say = (text: string) => writeAll(1 as Fd, encodeUtf8(`${text}\n`))

/** `NAME PATH` prints "held" and holds a lock until stdin ends, or prints "busy". Prints "lost" when it loses it. */
export function run(): void {
  const [path = ""] = programArguments()
  drive(async () => {
    using held = LockDirectory.take(path, () => new Error("lost"))
    say(held ? "held" : "busy")
    if (!held) return 1
    await ready(0 as Fd, Poll.In, { signal: held.lost })
    if (held.lost.aborted) say("lost")
    return 0
  })
}

if (import.meta.main) run()
