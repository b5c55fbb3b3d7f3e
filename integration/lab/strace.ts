import type { Attachment } from "./attachment.ts"
import type { PluginCall, PluginOutput } from "./run-plugin.ts"
import { TemporaryDirectory } from "./temporary-directory.ts"

/** A plugin call under strace(1): its output, and a line for each traced system call. */
export interface Traced {
  readonly output: PluginOutput
  readonly text: string
}

/**
 * Runs a plugin call under strace(1). `expressions` are the arguments of its `-e` options.
 *
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
