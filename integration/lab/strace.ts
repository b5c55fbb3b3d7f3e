import type { Attachment } from "./attachment.ts"
import type { PluginCall, PluginOutput } from "./run-plugin.ts"
import { TemporaryDirectory } from "./temporary-directory.ts"

/** A call as strace(1) has seen it: how it ended, and a line for each system call that was requested. */
export interface Traced {
  readonly output: PluginOutput
  readonly text: string
}

/**
 * Runs a call of an attachment under strace(1), with expressions for its `-e`.
 * @example await runTraced(attachment, "DEL", ["trace=openat", "inject=openat:error=EIO:when=2"])
 */
export async function runTraced(
  attachment: Attachment,
  verb: PluginCall["verb"],
  expressions: readonly string[],
  keys: object = {},
): Promise<Traced> {
  await using directory = await TemporaryDirectory.create("cni-strace")
  const file = directory.join("trace")
  const under = ["strace", "-f", "-qq", "-o", file, ...expressions.flatMap((one) => ["-e", one])]
  const output = await attachment.run(verb, keys, { under })
  return { output, text: await Bun.file(file).text() }
}
